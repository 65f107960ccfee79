// SPDX-License-Identifier: Apache-2.0

/// @file
/// A program's own layers, join, loss and metric train on a GPU as on the host.

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include <own_parts.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

namespace own_parts_test {

using namespace tandem;
using namespace tandem::test;

struct OwnNet : Network<Image<3, 5, 6>,
                        Sequential<Conv2d<8, Kernel<3>, Padding<1>>, OwnPrelu,
                                   Join<OwnProduct, Conv2d<4>, Sequential<Conv2d<4>, Softsign>>,
                                   OwnSwish, Join<ExpTimes, Conv2d<2>, Conv2d<2>>>> {};

template <class Own>
std::vector<double> trained() {
  Own trainer{engine_options()};
  std::vector<double> numbers;
  for (int step = 0; step < 4; ++step) {  // walked, recorded and replayed
    int const samples = step == 3 ? 9 : largest_batch;
    using T = typename Own::T;
    Samples<T> const data{Own::input, 2, samples, static_cast<std::uint64_t>(step)};
    Samples<float> const targets{Own::output, 2, samples, 90 + static_cast<std::uint64_t>(step)};
    StepResult const r = trainer.step(data.x, targets.x);
    numbers.insert(numbers.end(), {r.loss, r.gradient_norm, r.metric});
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

template <class S, class Precision>
void check(double bound) {
  Watchdog const watchdog{"own parts"};
  using OnHost = Trainer<OwnNet, SingleDevice<Microbatches<2>>, BasicHost<Portable, Fp64>, RampLoss,
                         PlaceOfWorst>;
  using OnGpu =
      Trainer<OwnNet, S, BasicCuda<Portable, Precision>, RampLoss, PlaceOfWorst, VirtualTransport>;
  auto const host = trained<OnHost>();
  auto const gpu = trained<OnGpu>();
  REQUIRE(gpu.size() == host.size());
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    CAPTURE(i);
    CHECK(!(std::abs(gpu[i] - host[i]) > bound * (1 + std::abs(host[i]))));
  }
}

TEST_CASE("own parts: on two GPUs as on the host, in double") {
  check<DataParallel<2>, Fp64>(1e-11);
}

TEST_CASE("own parts: in fp32, with steps recorded") {
  check<SingleDevice<Microbatches<2>>, Fp32>(1e-3);
}

}  // namespace own_parts_test
