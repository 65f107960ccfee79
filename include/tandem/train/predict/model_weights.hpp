// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One model's parameters for inference, out of a file that may have two, or averages, or out of a
/// trainer.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/schedule/rules/averaging.hpp>
#include <tandem/train/checkpoint/folder/read.hpp>
#include <tandem/train/checkpoint/load_weights.hpp>
#include <tandem/train/checkpoint/two_models.hpp>

namespace tandem::detail {

/// Of a file that has averages over steps, or a second model: what the choice says. @p to: the
/// parameters that will hold it.
template <class T>
LoadedCheckpoint<T> read_model(std::string const& path, GraphView network,
                               std::vector<NamedParameter<T>> const& to, WhichModel which,
                               NameInNetwork names) {
  LoadedCheckpoint<T> loaded{.file = read_tensors(path), .copies = {}};
  FileWeights file{loaded.file, path, names};
  std::vector<TensorView const*> const first = take_all(file, path, to);
  check_shared(file, path, network);
  for (std::size_t p = 0; p < to.size(); ++p) {
    TensorView const* const average = file.take("average." + to[p].name);
    TensorView const* const second = file.take(std::string{second_model} + to[p].name);
    for (TensorView const* const other : {average, second}) {
      if (other != nullptr) {
        check_fits(*other, to[p], path);
      }
    }
    bool const takes_average = average != nullptr && which == WhichModel::average;
    bool const takes_second = second != nullptr && which == WhichModel::second;
    bool const takes_mean = second != nullptr && which == WhichModel::average && !takes_average;
    loaded.copies.push_back(copy_into(to[p],
                                      takes_average  ? average
                                      : takes_second ? second
                                                     : first[p],
                                      takes_mean ? second : nullptr));
  }
  loaded.unused = file.unused();
  return loaded;
}

/// The same of a trainer's parameters, of whatever precision.
template <class T, class TrainerType>
void copy_model(TrainerType const& trainer, std::vector<NamedParameter<T>> const& to,
                WhichModel which) {
  using P = typename TrainerType::T;
  constexpr bool has_two = !TrainerType::ProgramType::averaging.ends_equal();
  std::vector<NamedParameter<P>> const first = trainer.parameters(0);
  bool const averages = trainer.options().average.on() && trainer.position().step > 0;
  auto const take = [&](std::vector<NamedParameter<P>> const& from) {
    for (std::size_t p = 0; p < to.size(); ++p) {
      std::transform(from[p].value.begin(), from[p].value.end(), writable(to[p].value).begin(),
                     [](P number) { return static_cast<T>(number); });
    }
  };
  if constexpr (has_two) {
    std::vector<NamedParameter<P>> const second = trainer.parameters(0, 1);
    if (which == WhichModel::average) {
      take(MeanModel<P>{first, second}.parameters());
    } else {
      take(which == WhichModel::first ? first : second);
    }
  } else {
    take(averages && which == WhichModel::average ? as_averages(first) : first);
  }
}

}  // namespace tandem::detail
