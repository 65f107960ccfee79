// SPDX-License-Identifier: Apache-2.0
#include <tandem/core/loss_scaling.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <doctest/doctest.h>

namespace loss_scaling_test {

using tandem::least_loss_scale;
using tandem::LossScale;
using tandem::LossScaling;

static_assert(LossScaling{}.on() && !LossScaling::off().on() && !LossScale{}.on());
static_assert(LossScale{65536.0F}.after({}, false) == LossScale{32768.0F, 0, 1});
static_assert(!LossScale{least_loss_scale}.lost() && LossScale{least_loss_scale / 2}.lost());

/// What get_scale() and the growth tracker of PyTorch 2.15's torch.amp.GradScaler('cpu', ...) are
/// after each step; in `bad` a 1 is a step whose gradient was set to infinity.
struct Golden {
  LossScaling rule;
  std::string_view bad;
  struct {
    float scale;
    std::int64_t good;
  } after[13];
};
constexpr Golden golden[] = {{{65536.0, 2.0, 0.5, 3},
                              "0001000000110",
                              {{0x1p16F, 1},
                               {0x1p16F, 2},
                               {0x1p17F, 0},
                               {0x1p16F, 0},
                               {0x1p16F, 1},
                               {0x1p16F, 2},
                               {0x1p17F, 0},
                               {0x1p17F, 1},
                               {0x1p17F, 2},
                               {0x1p18F, 0},
                               {0x1p17F, 0},
                               {0x1p16F, 0},
                               {0x1p16F, 1}}},
                             {{3e38, 1.7, 0.3, 2},  // which grows no further
                              "0010000010000",
                              {{0x1.c363ccp+127F, 1},
                               {0x1.c363ccp+127F, 0},
                               {0x1.0ed57ap+126F, 0},
                               {0x1.0ed57ap+126F, 1},
                               {0x1.cc6ae8p+126F, 0},
                               {0x1.cc6ae8p+126F, 1},
                               {0x1.875adep+127F, 0},
                               {0x1.875adep+127F, 1},
                               {0x1.d5a03ep+125F, 0},
                               {0x1.d5a03ep+125F, 1},
                               {0x1.8f2e9cp+126F, 0},
                               {0x1.8f2e9cp+126F, 1},
                               {0x1.534e04p+127F, 0}}}};

TEST_CASE("a loss scale moves as PyTorch's GradScaler moves it, to the bit") {
  for (Golden const& g : golden) {
    LossScale scale{.scale = static_cast<float>(g.rule.initial)};
    std::int64_t skipped = 0;
    for (std::size_t step = 0; step < g.bad.size(); ++step) {
      CAPTURE(step);
      bool const bad = g.bad[step] == '1';
      scale = scale.after(g.rule, !bad);
      skipped += bad ? 1 : 0;
      CHECK(scale.scale == g.after[step].scale);
      CHECK(scale.good == g.after[step].good);
      CHECK(scale.skipped == skipped);
    }
  }
}

}  // namespace loss_scaling_test
