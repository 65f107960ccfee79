// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which sample is to blame for a loss that is not finite: the one that has inf or nan in it.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/data/sample_source.hpp>

namespace tandem {

/// "sample 3 of the batch is inf or nan at element 5", or its target is; "" where all is finite.
/// @param of  what the sample is counted in
template <class In, class Target>
TANDEM_COLD std::string bad_sample(std::span<In const> x, std::span<Target const> y,
                                   std::int64_t sample, char const* of) {
  auto const text = [&](auto numbers, char const* what) TANDEM_COLD -> std::string {
    if constexpr (std::floating_point<typename decltype(numbers)::value_type>) {
      auto const bad =
          std::ranges::find_if(numbers, [](auto number) { return !is_finite(double{number}); });
      if (bad != numbers.end()) {
        return what + ("sample " + std::to_string(sample)) + " of the " + of +
               " is inf or nan at element " + std::to_string(bad - numbers.begin());
      }
    }
    return {};
  };
  std::string const input = text(x, "");
  return input.empty() ? text(y, "the target of ") : input;
}

/// The same of the first of @p samples that is so.
template <class In, class Target>
TANDEM_COLD std::string bad_sample_of(std::span<In const> x, std::span<Target const> y,
                                      std::size_t samples) {
  std::string found;
  for (std::size_t s = 0; s < samples && found.empty(); ++s) {
    auto const part = [&](auto all) {
      return all.subspan(s * (all.size() / samples), all.size() / samples);
    };
    found = bad_sample(part(x), part(y), static_cast<std::int64_t>(s), "batch");
  }
  return found;
}

/// bad_sample() of the batch that a loader of @p data begins with, whose samples are read once
/// more, and named by their index in the dataset; "" where that fails.
/// Cost: the order of the samples and one batch's reads; only once a loss has not been finite.
template <class In, class Target>
TANDEM_COLD std::string bad_sample_of(SampleSource<In, Target> const& data,
                                      LoaderOptions const& options) {
  if constexpr (std::floating_point<In> || std::floating_point<Target>) {
    try {
      EpochOrder const order = data.order(options);
      auto const reader = data.reader(options);
      BatchSlot<In, Target> one;
      reader->allocate(one, 1, 1);
      one.size = 1;
      one.part = {0, 1};
      std::int64_t const end = std::min<std::int64_t>(options.first + options.batch, data.size());
      for (std::int64_t position = options.first; position < end; ++position) {
        one.first = position;
        reader->prepare(one, order);
        reader->read(one, order, 0, 1, [](std::int64_t /*position*/) { return true; });
        std::int64_t const index = order[position];
        auto const x = std::span<In const>{one.x}.first(
            static_cast<std::size_t>(data.shape().elements(one.time)));
        std::string found = bad_sample(x, std::span<Target const>{one.y}, index, "dataset");
        if (!found.empty()) {
          return found;
        }
      }
    } catch (std::exception const&) {  // the loss is the error to tell of
    }
  }
  return {};
}

}  // namespace tandem
