// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Failures: how often devices fail, how often training should be saved, and what share of the time
/// then trains.
///
/// Failures come at random, a device's as likely at any moment as at another (exponential). After
/// one, training starts again from the newest checkpoint; it may fail while it does. Source: Daly,
/// "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
/// Generation Computer Systems 22(3), 2006, whose expected time is taken whole; the first order of
/// its best interval is Young's, √(2 δ M) (CACM 17(9), 1974).

#include <cmath>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>

namespace tandem {

/// Seconds. Failures of hosts and links count as those of their devices.
struct Failures {
  double device = 0;      ///< mean time between two failures of one device; 0: none fails
  double checkpoint = 0;  ///< for which a checkpoint stops training
  double restart = 0;     ///< from a failure until training goes on

  [[nodiscard]] constexpr bool known() const { return device > 0; }

  friend constexpr bool operator==(Failures const&, Failures const&) = default;
};

/// Seconds between two failures of any of @p devices, M.
/// @throws ContractError  failures are not known, a time is negative, or devices < 1
constexpr double seconds_between(Failures const& failures, int devices) {
  expects(failures.known() && failures.checkpoint >= 0 && failures.restart >= 0 && devices >= 1,
          "Failures: give a positive time between failures of a device, times of a checkpoint and "
          "of a restart that are not negative, and one device or more");
  return failures.device / devices;
}

/// Share of the time that trains if @p interval seconds of training lie between checkpoints:
/// t / (M e^(R/M) (e^((t + δ)/M) - 1)), Daly's equation 13. 0 where training never ends.
/// @throws ContractError  as seconds_between(), or the interval is negative
TANDEM_ONCE [[nodiscard]] double goodput(Failures const& failures, int devices, double interval);

/// Seconds of training between checkpoints with which most of the time trains: the t of
/// 1 - t/M = e^(-(t + δ)/M), to a part in 10^9. 0 where a checkpoint takes no time.
/// @throws ContractError  as seconds_between()
TANDEM_ONCE [[nodiscard]] double checkpoint_interval(Failures const& failures, int devices);

/// The share of time that trains with the best interval, checkpoint_interval().
/// @throws ContractError  as seconds_between()
TANDEM_ONCE [[nodiscard]] double goodput(Failures const& failures, int devices);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE double goodput(Failures const& failures, int devices, double interval) {
  double const between = seconds_between(failures, devices);
  expects(interval >= 0, "goodput(failures, devices, interval): give an interval >= 0");
  double const again = std::exp(-failures.restart / between);
  double const turn = std::expm1((interval + failures.checkpoint) / between);
  return turn > 0 ? again * (interval / between) / turn : again;  // saved all the time, at no cost
}

TANDEM_ONCE double checkpoint_interval(Failures const& failures, int devices) {
  double const between = seconds_between(failures, devices);
  double const cost = failures.checkpoint / between;
  double low = 0;  // the difference of both sides falls from 1 - e^(-δ/M) to below 0
  double high = 1;
  while (high - low > 1e-9 * high) {
    double const middle = (low + high) / 2;
    (-std::expm1(-(middle + cost)) > middle ? low : high) = middle;
    if (high < 1e-12) {
      return 0;
    }
  }
  return high * between;
}

TANDEM_ONCE double goodput(Failures const& failures, int devices) {
  return goodput(failures, devices, checkpoint_interval(failures, devices));
}

}  // namespace tandem

#endif
