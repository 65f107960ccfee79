// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Ranks that have tiles of images against one device, or replicas, on the host.

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include <compare.hpp>

#include "support.hpp"

namespace tandem::test {

/// @param ranks  that have all parameters of the first part of the model
/// @param bound  relative, of losses and norms, and of @p parts
template <class Host, class Gpus>
void check_as_one_device(Host& one, Gpus& many, int ranks, int steps, double bound,
                         std::initializer_list<Part> parts) {
  for (int s = 0; s < steps; ++s) {
    INFO("step " << s);
    StepResult const a = engine_step(one, s);
    StepResult const b = engine_step(many, s);
    CHECK(std::fabs(a.loss - b.loss) <= bound * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 10 * bound * a.gradient_norm);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (Part const part : parts) {
      Difference const off = difference(many.parameters(rank), one.parameters(), part);
      INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= bound);
    }
  }
}

}  // namespace tandem::test
