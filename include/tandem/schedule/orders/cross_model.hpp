// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CrossModel: two models that lie on the devices in opposite directions, one wave of each at a
/// time.

#include <tandem/schedule/orders/chimera.hpp>
#include <tandem/schedule/orders/pipeline_schedule.hpp>
#include <tandem/schedule/orders/words.hpp>

namespace tandem {

/// Chimera's order, for odd numbers of devices, too: there the middle device has the same stage of
/// both models and serves them as they come, the first model before the second.
///
/// With two microbatches, one a model, an even number of devices takes sum(F_s + B_s) for both,
/// which model parallelism takes for one, however unequal the stages are; an odd number max(F, B)
/// of the middle stage more, where no stage is longer than all behind it. One microbatch of each of
/// its two stages is live on a device.
/// @pre    devices >= 2, microbatches even
/// Source: Xu and Bai 2023, cross model parallelism
struct CrossModel {
  static constexpr char const* name = "cross_model";
  static constexpr ScheduleWords words{.type = "CrossModelParallel<AverageGradients, ",
                                       .devices = "2 or more",
                                       .microbatches = "an even number of microbatches, 2 or more",
                                       .least_devices = 2};
  static constexpr int chunks = 1;
  static constexpr int copies = 2;
  static constexpr bool splits_backward = false;

  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 2 && microbatches >= 2 && microbatches % 2 == 0;
  }

  template <class Sink>
  static constexpr void generate(int devices, int microbatches, Sink& sink) {
    detail::ChimeraMerge<Sink>{devices, microbatches / 2, sink}.run();
  }
};

}  // namespace tandem
