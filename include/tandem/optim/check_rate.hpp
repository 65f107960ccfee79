// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checks of one number of an optimizer, with the sentences that name it.

#include <cstdio>
#include <limits>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

namespace detail {

/// A finite number of 0 or more that a float can be; not a nan.
constexpr bool is_rate(double value) {
  return is_finite(value) && value >= 0.0 && value <= double{std::numeric_limits<float>::max()};
}

/// "0.1", "nan", "1e+39".
TANDEM_ONCE std::string shown(double value);

/// @throws ContractError  names the option and its value
TANDEM_ONCE TANDEM_COLD void check_rate(double value, std::string const& option);

TANDEM_ONCE TANDEM_COLD void check_beta(double value, std::string const& option);

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

TANDEM_ONCE void check_rate(double value, std::string const& option) {
  if (!is_rate(value)) {
    throw ContractError{"TrainerOptions: " + option + " is " + shown(value) +
                        "; give a finite number of 0 or more"};
  }
}

TANDEM_ONCE void check_beta(double value, std::string const& option) {
  if (!is_finite(value) || value < 0.0 || value >= 1.0) {
    throw ContractError{"TrainerOptions: " + option + " is " + shown(value) +
                        "; give a number from 0 to less than 1"};
  }
}

}  // namespace tandem::detail

#endif
