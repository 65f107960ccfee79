// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parameters and statistics out of a safetensors file of whatever floats and names.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/train/checkpoint/folder/read.hpp>
#include <tandem/train/checkpoint/load.hpp>
#include <tandem/train/checkpoint/plan.hpp>
#include <tandem/train/checkpoint/two_models.hpp>
#include <tandem/train/checkpoint/weight_names.hpp>

namespace tandem {

namespace detail {

/// A double that is finite is so as a T, too.
template <class T>
void check_range(TensorView const& tensor, std::string const& path) {
  if (!std::is_same_v<T, float> || tensor.dtype != Dtype::F64) {
    return;
  }
  for (std::size_t at = 0; at < tensor.data.size(); at += sizeof(double)) {
    double number;
    std::memcpy(&number, tensor.data.data() + at, sizeof number);
    // half of the last place above the largest float is rounded to infinity
    if (std::fabs(number) >= 0x1.ffffffp+127 &&
        std::fabs(number) <= std::numeric_limits<double>::max()) {
      throw FileError{path, "tensor '" + printable(tensor.name) + "' has " +
                                std::to_string(number) + " at element " +
                                std::to_string(at / sizeof number) +
                                ", which no float holds; take a backend of Fp64"};
    }
  }
}

/// @p found can be taken for parameter @p p.
template <class T>
void check_fits(TensorView const& found, NamedParameter<T> const& p, std::string const& path) {
  if (!is_float(found.dtype)) {
    throw FileError{path, "tensor '" + printable(found.name) + "' is of " + found.type() +
                              ", but weights are of F16, BF16, F32 or F64"};
  }
  if (found.shape != extents(p.shape)) {
    throw FileError{path, "tensor '" + printable(found.name) + "' is " + to_string(found.shape) +
                              ", but this network wants " + to_string(extents(p.shape)) + " for '" +
                              p.name + "'"};
  }
  check_range<T>(found, path);
}

/// A file may have a weight of its own where the network shares one, if both are equal.
TANDEM_ONCE void check_shared(FileWeights& file, std::string const& path, GraphView network);

/// The tensor of each of @p parameters, in their order.
/// @throws FileError  some are missing, or one does not fit
template <class T>
std::vector<TensorView const*> take_all(FileWeights& file, std::string const& path,
                                        std::vector<NamedParameter<T>> const& parameters) {
  std::vector<TensorView const*> list;
  std::vector<std::string> missing;
  std::vector<std::int64_t> shape;  // of the first that is missing
  for (NamedParameter<T> const& p : parameters) {
    list.push_back(file.take(p.name));
    if (list.back() == nullptr && p.owner == p.index) {
      shape = missing.empty() ? extents(p.shape) : shape;
      missing.push_back(p.name);
    }
  }
  if (!missing.empty()) {
    file.fail_of(missing, shape);
  }
  for (std::size_t p = 0; p < list.size(); ++p) {
    check_fits(*list[p], parameters[p], path);
  }
  return list;
}

template <class T>
CheckpointCopy copy_into(NamedParameter<T> const& p, TensorView const* from,
                         TensorView const* second = nullptr) {
  return {reinterpret_cast<std::byte*>(writable(p.value).data()), from, second};
}

}  // namespace detail

/// Reads and checks parameters and statistics for @p ranks, the parameters of every rank, whoever
/// wrote the file; other tensors are listed. Numbers of fewer or more bits are converted, a double
/// rounded to the nearest float, ties to even; averages of weights begin there.
/// @param whole  the parameters of one model
/// @param names  give the network's
/// @throws FileError  the file is corrupt, lacks a parameter, has one of another shape, a number
///                    that T cannot hold, or two that differ where the network shares one
template <class T>
LoadedCheckpoint<T> read_parameters(std::string const& path, GraphView network,
                                    std::vector<NamedParameter<T>> const& whole,
                                    std::vector<std::vector<NamedParameter<T>>> const& ranks,
                                    detail::NameInNetwork names) {
  LoadedCheckpoint<T> loaded{.file = detail::read_tensors(path), .copies = {}};
  detail::FileWeights file{loaded.file, path, names};
  std::vector<NamedParameter<T>> const model = without_prefix(whole);
  std::vector<TensorView const*> const found = detail::take_all(file, path, model);
  detail::check_shared(file, path, network);
  for (auto const& rank : ranks) {
    for (NamedParameter<T> const& own : rank) {
      loaded.copies.push_back(detail::copy_into(own, found[static_cast<std::size_t>(own.index)]));
    }
    detail::begin_averages(loaded.copies, rank);
  }
  loaded.unused = file.unused();
  return loaded;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_shared(FileWeights& file, std::string const& path, GraphView network) {
  for (int p = 0; p < network.parameters; ++p) {
    if (network.parameter[p].shared < 0) {
      continue;
    }
    TensorView const* const first = file.take(parameter_name(network, p));
    TensorView const* const second = file.take(untied_name(network, p));
    if (first != nullptr && second != nullptr &&
        (second->dtype != first->dtype || second->shape != first->shape ||
         !std::ranges::equal(second->data, first->data))) {
      throw FileError{path, "tensors '" + first->name + "' and '" + second->name +
                                "' differ, but this network has one weight for both; leave out "
                                "its Shares<>, or make them equal in the file"};
    }
  }
}

}  // namespace tandem::detail

#endif
