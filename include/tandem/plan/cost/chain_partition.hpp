// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// partition_chain: cuts a chain of measured loads into consecutive parts whose heaviest is as
/// light as can be.
///
/// For numbers that are known at run time, such as seconds; detail::balance in strategy/cut/ does
/// the same in constant expressions for integers.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>

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
/// Cost:   O(64 n) additions; no memory but for the result.
/// @throws ContractError  @p parts is not in [1, n], or a load is negative or not finite
TANDEM_ONCE [[nodiscard]] ChainPartition partition_chain(std::span<double const> loads, int parts);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ChainPartition partition_chain(std::span<double const> loads, int parts) {
  expects(parts >= 1, "partition_chain(loads, parts): parts must be at least 1");
  expects(static_cast<std::size_t>(parts) <= loads.size(),
          "partition_chain(loads, parts): there must be at least one load for each part");
  for (double const load : loads) {
    expects(is_finite(load) && load >= 0,
            "partition_chain(loads, parts): loads must be finite and not negative");
  }
  // Whether parts of at most so much, each as long as it can be, from the last to the first, are
  // enough.
  auto const enough = [&](double most) {
    int used = 1;
    double sum = 0;
    for (std::size_t i = loads.size(); i-- > 0;) {
      if (loads[i] > most) {
        return false;
      }
      if ((sum += loads[i]) > most) {
        sum = loads[i];
        if (++used > parts) {
          return false;
        }
      }
    }
    return true;
  };
  // Of numbers that are not negative the bits are in the order of the numbers: 64 halvings find the
  // least one that is enough, which is the sum of a part.
  auto low = std::bit_cast<std::uint64_t>(0.0);
  auto high = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity());
  while (low < high) {
    std::uint64_t const middle = low + (high - low) / 2;
    if (enough(std::bit_cast<double>(middle))) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::size_t const n = loads.size();
  ChainPartition result{std::bit_cast<double>(low),
                        std::vector<int>(static_cast<std::size_t>(parts))};
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

#endif
