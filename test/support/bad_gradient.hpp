// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A step whose gradient overflows, though its loss is finite, under a strategy on a backend.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {

/// y = x, with a slope that is infinite where x is large.
struct Cliff : ElementLayer<Cliff> {
  static constexpr std::string_view name = "Cliff";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x) {
    return x;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope(R x) {
    return std::fabs(x) > R{1e9F} ? std::numeric_limits<R>::infinity() : R{1};
  }
};
struct CliffNet : Network<Vector<4>, Sequential<Linear<8>, Cliff, Linear<6>, ReLU, Linear<4>>> {};

/// A step whose loss is finite while the gradient of the first layer is not changes nothing.
/// @tparam OnDevice  a Trainer of CliffNet
/// @param  large     what the samples of that step have
template <class OnDevice>
void check_bad_gradient(float large = 1e12F) {
  using Program = typename OnDevice::ProgramType;
  Watchdog const watchdog{"a gradient that is not finite"};
  for (double const clip_norm : {0.0, 1.0}) {
    CAPTURE(clip_norm);
    TrainerOptions const options{.batch = 8,
                                 .optimizer = Adam{},
                                 .clip_norm = clip_norm,
                                 .seed = 3,
                                 .threads_per_device = 1};
    OnDevice trainer{options};
    OnDevice untouched{options};
    Samples<float> const good{trainer.input, 4, 8};
    std::vector<float> const x(good.x.size(), large);
    std::vector<std::int32_t> const y{0, 1, 2, 3, 0, 1, 2, 3};  // most are wrong
    auto const check_same = [&] {
      for (int replica = 0; replica < Program::ranks / Program::devices; ++replica) {
        for (int copy = 0; copy < Program::map.copies; ++copy) {
          CHECK(first_difference(trainer.parameters(replica, copy),
                                 untouched.parameters(0, copy)) == "");
        }
      }
    };
    trainer.step(good.x, good.y);
    untouched.step(good.x, good.y);
    CHECK(contains(message<NonFiniteLoss>([&] { trainer.step(x, y); }),
                   "step 1: the gradient of '0.weight' is not finite, although the loss is; "
                   "parameters are those of before the step: "));
    CHECK(trainer.position().step == 1);
    check_same();
    trainer.step(good.x, good.y);
    untouched.step(good.x, good.y);
    check_same();
  }
}

}  // namespace tandem::test
