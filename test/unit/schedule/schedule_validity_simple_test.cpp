// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <tandem/schedule/orders/gpipe.hpp>
#include <tandem/schedule/orders/one_f_one_b.hpp>
#include <tandem/schedule/orders/sequential.hpp>

#include "schedule_validity.hpp"

namespace schedule_validity_simple_test {

using namespace tandem;
using tandem_test::valid_for;
using tandem_test::valid_on_grid;

static_assert(valid_on_grid<SequentialStages>() && valid_for<SequentialStages, 16, 64>());
static_assert(valid_on_grid<GPipe>() && valid_for<GPipe, 16, 64>());
static_assert(valid_on_grid<OneFOneB>() && valid_for<OneFOneB, 16, 64>());

// Under rendezvous, GPipe runs and 1F1B does not.
template <class S, int Depth>
constexpr Verdict verdict = verify(tandem_test::Verified<S, 4, 8>::table,
                                   tandem_test::Verified<S, 4, 8>::map, 8, Depth);
static_assert(verdict<GPipe, 0> && verdict<SequentialStages, 0>);
static_assert(verdict<OneFOneB, 0>.flaw == Flaw::deadlock && verdict<OneFOneB, 1>);

TEST_CASE("Sequential, GPipe and 1F1B are valid at compile time") {
  CHECK(valid_on_grid<OneFOneB>());
}

}  // namespace schedule_validity_simple_test
