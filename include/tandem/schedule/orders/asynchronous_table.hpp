// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The rows of an asynchronous pipeline, unrolled: how it fills (prologue), what it then does again
/// and again (period), and how it is drained (epilogue).
///
/// Stage k does F(g) for g = 0, 1, ..., behind it B(g - delay(k)), and an update behind the last B
/// of a step. Passes name the version that they read, "0F3@2".

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/schedule/orders/asynchronous_schedule.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem {

/// Steps with which a table shows the prologue, two periods and the epilogue of every stage.
constexpr int unrolled_steps(Asynchrony const& asynchrony) { return asynchrony.late_steps(0) + 2; }

/// Most steps of a table: Action::version is a byte.
inline constexpr int most_unrolled_steps = 255;

namespace detail {

constexpr std::uint8_t clipped(std::int64_t version) {
  return static_cast<std::uint8_t>(version > 0 ? version : 0);
}

/// sink(device, action) in each device's order.
template <class Sink>
constexpr void generate_asynchronous(Asynchrony const& asynchrony, int steps, Sink& sink) {
  int const all = steps * asynchrony.microbatches;
  for (int k = 0; k < asynchrony.devices; ++k) {
    auto const stage = static_cast<std::int16_t>(k);
    int const delay = asynchrony.delay(k);
    for (int g = 0; g < all + delay; ++g) {
      if (g < all) {
        sink(k, {ActionKind::forward, clipped(asynchrony.forward_version(k, g)), stage, g});
      }
      int const late = g - delay;
      if (late < 0 || late >= all) {
        continue;
      }
      sink(k, {ActionKind::backward, clipped(asynchrony.backward_version(k, late)), stage, late});
      if ((late + 1) % asynchrony.microbatches == 0) {
        sink(k, {ActionKind::update, 0, stage, 0});
      }
    }
  }
}

template <AsynchronousSchedule S, int Devices, int Microbatches, int Steps>
struct AsynchronousFits {
  static constexpr bool value = true;
  static_assert(
      S::fits(Devices, Microbatches) && Steps >= 1 && Steps <= most_unrolled_steps,
      "asynchronous_table<S, Devices, Microbatches, Steps>(): the schedule has no order "
      "for these numbers; give 1 to 255 steps, and devices and microbatches that its fits() "
      "takes");
};

}  // namespace detail

/// The passes and updates of each device in @p Steps steps; no messages.
template <AsynchronousSchedule S, int Devices, int Microbatches, int Steps>
constexpr auto asynchronous_table() {
  static_assert(detail::AsynchronousFits<S, Devices, Microbatches, Steps>::value);
  ActionTable<Devices, Steps*(2 * Microbatches + 1)> table;
  auto sink = [&table](int device, Action action) { table.add(device, action); };
  if (detail::AsynchronousFits<S, Devices, Microbatches, Steps>::value) {
    detail::generate_asynchronous(S::asynchrony(Devices, Microbatches), Steps, sink);
  }
  return table;
}

/// The same at run time.
/// @throws ContractError  @p steps is not in 1 to 255, or there is no device or microbatch
TANDEM_ONCE ActionRows asynchronous_table(Asynchrony const& asynchrony, int steps);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE ActionRows asynchronous_table(Asynchrony const& asynchrony, int steps) {
  expects(asynchrony.devices >= 1 && asynchrony.microbatches >= 1,
          "asynchronous_table(asynchrony, steps): give 1 device or more and 1 microbatch or more");
  expects(steps >= 1 && steps <= most_unrolled_steps,
          "asynchronous_table(asynchrony, steps): give 1 to 255 steps");
  ActionRows rows(static_cast<std::size_t>(asynchrony.devices));
  auto sink = [&rows](int device, Action action) {
    rows[static_cast<std::size_t>(device)].push_back(action);
  };
  detail::generate_asynchronous(asynchrony, steps, sink);
  return rows;
}

}  // namespace tandem

#endif
