// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// partition_chain: cuts a chain of measured loads into consecutive parts whose heaviest is as
/// light as can be.
///
/// For numbers that are known at run time, such as seconds; detail::balance in strategy/ does the
/// same in constant expressions for integers, whose range it halves, which reals do not allow.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/contract.hpp>

namespace tandem {

/// A chain cut into consecutive parts.
struct ChainPartition {
  double max_load = 0;       ///< the load of the heaviest part
  std::vector<int> sizes{};  ///< how many items each part has, at least one
};

/// The exact optimum. Of several, that whose last part has the most items, of those that whose last
/// but one has, and so on: the first stages of a pipeline hold most activations. The load of a part
/// is the sum of its items from the last to the first, as rounded.
///
/// Cost:   O(n^2 parts) additions, about n^2 where loads are alike; O(n) memory.
/// @throws ContractError  @p parts is not in [1, n], or a load is negative or not finite
template <class = void>
[[nodiscard]] ChainPartition partition_chain(std::span<double const> loads, int parts) {
  expects(parts >= 1, "partition_chain(loads, parts): parts must be at least 1");
  expects(static_cast<std::size_t>(parts) <= loads.size(),
          "partition_chain(loads, parts): there must be at least one load for each part");
  for (double const load : loads) {
    expects(std::isfinite(load) && load >= 0,
            "partition_chain(loads, parts): loads must be finite and not negative");
  }
  std::size_t const n = loads.size();
  double const never = std::numeric_limits<double>::infinity();
  // best[i]: of the first i items, in the parts so far; empty ones among them change nothing.
  std::vector<double> best(n + 1, never);
  best[0] = 0;
  for (int part = 0; part < parts; ++part) {
    for (std::size_t i = n; i > 0; --i) {  // best[j] with j < i is still of one part less
      double least = never;
      double sum = 0;
      for (std::size_t j = i; j-- > 0 && (sum += loads[j]) < least;) {  // the last part is [j, i)
        least = std::min(least, std::max(best[j], sum));
      }
      best[i] = least;
    }
  }
  ChainPartition result{best[n], std::vector<int>(static_cast<std::size_t>(parts))};
  std::size_t left = n;
  for (std::size_t part = result.sizes.size(); part-- > 0;) {
    double sum = 0;
    std::size_t const end = left;
    while (left > part && (sum += loads[left - 1]) <= result.max_load) {
      --left;
    }
    result.sizes[part] = static_cast<int>(end - left);
  }
  return result;
}

}  // namespace tandem
