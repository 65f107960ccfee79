// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks that a DeepNet on several devices trains as on one with the same microbatches, for many
/// schedules: the tables are imported, so one strategy type runs them all.

#include <doctest/doctest.h>

#include <initializer_list>
#include <string_view>
#include <type_traits>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <parity.hpp>

namespace tandem::test {

/// Many is compared with one device, reproducible if it is.
template <class Many, class Backend = Host>
void check_deep(Alike how, TrainerOptions const& single = parity_options(),
                TrainerOptions const& several = parity_options()) {
  using One =
      std::conditional_t<Many::batching.reproducible, SingleDevice<Microbatches<4>, Reproducible<>>,
                         SingleDevice<Microbatches<4>>>;
  check_alike<DeepNet, One, Many, Backend>(how, single, several);
}

/// @param schedules  of which each is run with each number of microbatches, @p counts, of a replica
template <class Many, class Backend = Host>
void check_tables(Alike how, std::initializer_list<std::string_view> schedules,
                  std::initializer_list<int> counts,
                  TrainerOptions const& options = parity_options()) {
  using Program = typename Trainer<DeepNet, Many, Backend>::ProgramType;
  for (std::string_view const schedule : schedules) {
    for (int const count : counts) {
      INFO(schedule << ", " << count);
      TrainerOptions single = options;
      single.rows = make_schedule("sequential", 1, Program::batching.replicas * count);
      TrainerOptions several = options;
      several.rows =
          make_schedule(schedule, Program::devices, count, Program::map.parts() / Program::devices);
      check_deep<Many, Backend>(how, single, several);
    }
  }
}

}  // namespace tandem::test
