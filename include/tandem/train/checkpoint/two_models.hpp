// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parameters of strategies that train two models: their names in files, and the mean of both; and
/// averages over steps.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/io/safetensors/all.hpp>

namespace tandem {

/// What stands before the names of the second model's parameters.
inline constexpr std::string_view second_model = "second.";

/// Names those of the second model so.
template <class T>
TANDEM_COLD std::vector<NamedParameter<T>> with_prefix(std::vector<NamedParameter<T>> list) {
  for (NamedParameter<T>& p : list) {
    p.name = (p.copy == 0 ? "" : std::string{second_model}) + p.name;
  }
  return list;
}

/// One model's parameters under the names of the second one's.
template <class T>
std::vector<NamedParameter<T>> as_second(std::vector<NamedParameter<T>> list) {
  for (NamedParameter<T>& p : list) {
    p.name = std::string{second_model} + p.name;
  }
  return list;
}

/// The names as those of one model.
template <class T>
std::vector<NamedParameter<T>> without_prefix(std::vector<NamedParameter<T>> list) {
  for (NamedParameter<T>& p : list) {
    if (std::string_view{p.name}.substr(0, second_model.size()) == second_model) {
      p.name.erase(0, second_model.size());
    }
  }
  return list;
}

/// Averages in place of the weights that have one.
template <class T>
std::vector<NamedParameter<T>> as_averages(std::vector<NamedParameter<T>> list) {
  for (NamedParameter<T>& p : list) {
    p.value = p.average.empty() ? p.value : p.average;
  }
  return list;
}

/// The mean of two models' parameters and statistics, in memory of its own; no optimizer states.
template <class T>
class MeanModel {
 public:
  MeanModel(std::vector<NamedParameter<T>> const& first,
            std::vector<NamedParameter<T>> const& second) {
    for (std::size_t p = 0; p < first.size(); ++p) {
      std::vector<T>& mean = memory_.emplace_back(first[p].value.begin(), first[p].value.end());
      for (std::size_t i = 0; i < mean.size(); ++i) {
        mean[i] = (mean[i] + second[p].value[i]) / T{2};
      }
      NamedParameter<T> own = first[p];
      own.value = mean;
      own.states.clear();
      own.average = {};
      parameters_.push_back(std::move(own));
    }
  }
  MeanModel(MeanModel const&) = delete;
  MeanModel& operator=(MeanModel const&) = delete;

  [[nodiscard]] std::vector<NamedParameter<T>> const& parameters() const { return parameters_; }

 private:
  std::vector<std::vector<T>> memory_;
  std::vector<NamedParameter<T>> parameters_;
};

/// @p to becomes the mean of two tensors of its size, of any floats.
template <class T>
void take_mean(std::byte* to, TensorView const& first, TensorView const& second) noexcept {
  constexpr std::int64_t block = 256;
  auto const step = [](TensorView const& t) { return dtype_bytes(t.dtype); };
  auto const count = static_cast<std::int64_t>(first.data.size()) / step(first);
  for (std::int64_t at = 0; at < count; at += block) {
    std::int64_t const some = std::min(block, count - at);
    T a[block];
    T b[block];
    copy_numbers(first.dtype, first.data.data() + at * step(first), a, 1, some, false);
    copy_numbers(second.dtype, second.data.data() + at * step(second), b, 1, some, false);
    for (std::int64_t i = 0; i < some; ++i) {
      a[i] = (a[i] + b[i]) / T{2};
    }
    std::memcpy(to + at * static_cast<std::int64_t>(sizeof(T)), a,
                static_cast<std::size_t>(some) * sizeof(T));
  }
}

}  // namespace tandem
