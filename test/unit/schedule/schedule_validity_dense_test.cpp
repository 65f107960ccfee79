// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/schedule/orders/chimera.hpp>
#include <tandem/schedule/orders/dual_pipe.hpp>
#include <tandem/schedule/orders/dual_pipe_v.hpp>
#include <tandem/schedule/orders/interleaved.hpp>
#include <tandem/schedule/orders/v_half.hpp>
#include <tandem/schedule/orders/v_min.hpp>
#include <tandem/schedule/orders/zero_bubble_h1.hpp>
#include <tandem/schedule/orders/zero_bubble_h2.hpp>
#include <tandem/schedule/orders/zero_bubble_v.hpp>

#include "schedule_validity.hpp"

namespace schedule_validity_dense_test {

using namespace tandem;
using tandem_test::valid_for;
using tandem_test::valid_on_grid;

static_assert(valid_on_grid<ZeroBubbleH1>() && valid_for<ZeroBubbleH1, 16, 64>());
static_assert(valid_on_grid<ZeroBubbleH2>() && valid_for<ZeroBubbleH2, 16, 64>());
static_assert(valid_on_grid<VHalf>() && valid_for<VHalf, 16, 64>());
static_assert(valid_on_grid<VMin>() && valid_for<VMin, 16, 64>());
static_assert(valid_on_grid<DualPipe>() && valid_for<DualPipe, 16, 64>());
static_assert(valid_on_grid<DualPipeV>() && valid_for<DualPipeV, 16, 64>());
static_assert(valid_on_grid<ZeroBubbleV>() && valid_for<ZeroBubbleV, 16, 64>());
static_assert(valid_on_grid<Chimera>() && valid_for<Chimera, 16, 64>());
// Several rounds of more than p microbatches want more than one message in flight.
static_assert(valid_for<Interleaved<2>, 2, 1, 2, 3, 4, 16>() &&
              valid_for<Interleaved<2>, 3, 1, 2, 3, 5, 9>() &&
              valid_for<Interleaved<2>, 4, 1, 2, 4, 7, 8, 16>() &&
              valid_for<Interleaved<2>, 8, 1, 7, 15, 16, 64>());
constexpr auto four = schedule_map<Interleaved<2>, 4>();
constexpr auto long_rounds = lower(schedule_table<Interleaved<2>, 4, 10>(), four);
static_assert(verify(long_rounds, four, 10).flaw == Flaw::deadlock &&
              verify(long_rounds, four, 10, 5));
static_assert(valid_for<Interleaved<4>, 4, 8, 64>() && valid_for<Interleaved<3>, 1, 1, 5>());

TEST_CASE("zero bubbles, VHalf, VMin, Chimera and Interleaved are valid at compile time") {
  CHECK(valid_on_grid<Chimera>());
}

}  // namespace schedule_validity_dense_test
