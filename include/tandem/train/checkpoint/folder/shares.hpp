// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointShares: which process writes which tensor of a checkpoint's folder, and into which
/// file. All processes work it out alike, from the tensors and their own number alone.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/safetensors/layout.hpp>
#include <tandem/train/checkpoint/weight_names.hpp>

namespace tandem::detail {

/// Whether a checkpoint's tensor is a parameter or a statistic of the network.
TANDEM_ONCE bool is_weight(std::string_view tensor);

/// The process of each of these sizes: the largest first, each to the one that has least, of equals
/// to the first. None has more than the mean and the largest size.
TANDEM_ONCE std::vector<int> deal(std::span<std::int64_t const> bytes, int processes);

/// Whole tensors, of the network in model-00001-of-0000N.safetensors and so on, all others in
/// optimizer-…: as many files as there are processes that have one.
class CheckpointShares {
 public:
  TANDEM_ONCE CheckpointShares(std::span<TensorView const> tensors, int processes);

  [[nodiscard]] int owner(std::size_t tensor) const { return owner_[tensor]; }
  [[nodiscard]] std::string const& file(std::size_t tensor) const { return file_[tensor]; }

 private:
  TANDEM_ONCE static std::vector<std::int64_t> sizes_of(std::span<TensorView const> tensors);
  static std::string five_digits(std::ptrdiff_t number) {
    std::string const digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  }

  std::vector<int> owner_;
  std::vector<std::string> file_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool is_weight(std::string_view tensor) {
  return std::none_of(std::begin(beside_weights), std::end(beside_weights),
                      [&](std::string_view start) { return tensor.starts_with(start); });
}

TANDEM_ONCE std::vector<int> deal(std::span<std::int64_t const> bytes, int processes) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::int64_t> load(static_cast<std::size_t>(processes));
  std::vector<int> owner(bytes.size());
  for (std::size_t const i : order) {
    auto const least = std::min_element(load.begin(), load.end());
    *least += bytes[i];
    owner[i] = static_cast<int>(least - load.begin());
  }
  return owner;
}

TANDEM_ONCE CheckpointShares::CheckpointShares(std::span<TensorView const> tensors, int processes)
    : owner_{deal(sizes_of(tensors), processes)} {
  std::array<std::vector<int>, 2> writers;  // of others, and of the network's
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    writers[is_weight(tensors[i].name) ? 1 : 0].push_back(owner_[i]);
  }
  for (std::vector<int>& list : writers) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    bool const weight = is_weight(tensors[i].name);
    std::vector<int> const& list = writers[weight ? 1 : 0];
    auto const at = std::lower_bound(list.begin(), list.end(), owner_[i]) - list.begin();
    file_.push_back((weight ? "model-" : "optimizer-") + five_digits(at + 1) + "-of-" +
                    five_digits(std::ssize(list)) + ".safetensors");
  }
}

TANDEM_ONCE std::vector<std::int64_t> CheckpointShares::sizes_of(
    std::span<TensorView const> tensors) {
  std::vector<std::int64_t> sizes;
  for (TensorView const& tensor : tensors) {
    sizes.push_back(*tensor_bytes(tensor.dtype, tensor.shape));
  }
  return sizes;
}

}  // namespace tandem::detail

#endif
