// SPDX-License-Identifier: Apache-2.0

/// @file
/// A network trains on a GPU as it does on the host, under every strategy that there is.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <rank_of.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

namespace parity_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

// The same five steps in double, with the same microbatches; on every rank.
template <class S, class OneDevice, class Net = TinyNet>
void check_double() {
  Watchdog const watchdog{"five steps in double"};
  OnHost<OneDevice, Fp64, Net> host{engine_options()};
  OnGpu<S, Fp64, Net> gpu{engine_options()};
  for (int s = 0; s < 6; ++s) {
    StepResult const a = engine_step(host, s);
    StepResult const b = engine_step(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-11 * a.gradient_norm);
    CHECK(a.metric == b.metric);
    CHECK(b.samples == a.samples);
  }
  for (int rank = 0; rank < S::ranks; ++rank) {
    auto const replica = gpu.parameters(rank);
    Difference const off = difference(replica, host.parameters(), Part::value);
    INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-11);
    CHECK(first_difference(replica, gpu.parameters(0)) == "");  // replicas: the same bits
  }
}

TEST_CASE("one GPU trains as the host does, in double") {
  check_double<SingleDevice<>, SingleDevice<>>();
  check_double<SingleDevice<Microbatches<3>>, SingleDevice<Microbatches<3>>>();
}

TEST_CASE("a Flatten of several channels keeps their order") {
  check_double<SingleDevice<>, SingleDevice<>, PlainNet>();
}

/// Concats whose inputs are written into them: of batch norms and pools, of 16 bytes and not.
struct PlacedNet : Network<Image<3, 8, 8>,
                           Sequential<Conv2d<8, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>, ReLU,
                                      Concat<Sequential<Conv2d<8, NoBias>, BatchNorm2d<>, ReLU>,
                                             MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>,
                                             Sequential<Conv2d<3, NoBias>, BatchNorm2d<>, ReLU>>,
                                      Concat<Sequential<Conv2d<4, NoBias>, BatchNorm2d<>>,
                                             AvgPool2d<Kernel<3>, Stride<1>, Padding<1>>>,
                                      GlobalAvgPool, Linear<5>>> {};

TEST_CASE("what a Concat joins is written into it") {
  constexpr auto const& graph = DeviceOf<OnGpu<SingleDevice<>, Fp64, PlacedNet>>::graph;
  int placed = 0;
  for (int n = 0; n < graph.nodes; ++n) {
    placed += graph.node[n].fusion.placed;
  }
  CHECK(placed == 2);
  check_double<SingleDevice<Microbatches<2>>, SingleDevice<Microbatches<2>>, PlacedNet>();
  check_double<DataParallel<2>, SingleDevice<Microbatches<2>>, PlacedNet>();
}

TEST_CASE("2 and 4 ranks train as one does, in double") {
  check_double<DataParallel<2>, SingleDevice<Microbatches<2>>>();
  check_double<DataParallel<4>, SingleDevice<Microbatches<4>>>();
  check_double<DataParallel<2, Microbatches<2>, BucketBytes<64, 256>>,
               SingleDevice<Microbatches<4>>>();
}

TEST_CASE("unequal shards, one of them empty") {
  check_double<DataParallel<3, Weighted<4, 0, 3>>,
               SingleDevice<Microbatches<3>, Weighted<4, 0, 3>>>();
}

// A gradient is a sum of at most 64 products a sample (the pixels), in two orders; each is off by
// eps of the products' type times their number, relative to the largest.
template <class Precision>
void check_gradients(double epsilon) {
  OnHost<SingleDevice<>> host{engine_options()};
  OnGpu<SingleDevice<>, Precision> gpu{engine_options()};
  StepResult const a = engine_step(host, 0);
  StepResult const b = engine_step(gpu, 0);
  CHECK(std::fabs(a.loss - b.loss) <= 64 * epsilon * a.loss);
  Difference const off = difference(gpu.parameters(), host.parameters(), Part::gradient);
  INFO("gradient of " << off.name << " is off by " << off.error);
  CHECK(off.error <= 2.0 * largest_batch * 64 * epsilon);
  CHECK(off.error > 0.0);  // other kernels: equal bits would be suspicious
}

TEST_CASE("gradients of the first step, in every precision") {
  check_gradients<Fp32>(std::numeric_limits<float>::epsilon());
  check_gradients<Tf32>(std::ldexp(1.0, -11));
  check_gradients<Bf16>(std::ldexp(1.0, -9));
}

template <class S>
auto bits_of(TrainerOptions const& options, int steps = 7) {
  Watchdog const watchdog{"steps in fp32"};
  OnGpu<S> trainer{options};
  return engine_bits(trainer, steps);
}

TEST_CASE("reproducible: the same bits on 1, 2 and 4 ranks") {
  TrainerOptions const options = engine_options();
  auto const one = bits_of<SingleDevice<Microbatches<4>, Reproducible<>>>(options);
  CHECK(one == bits_of<DataParallel<2, Microbatches<2>, Reproducible<>>>(options));
  CHECK(one == bits_of<DataParallel<4, Reproducible<>>>(options));
  CHECK(one != bits_of<SingleDevice<Microbatches<2>, Reproducible<>>>(options));
}

TEST_CASE("a replayed step is the step that was walked") {
  TrainerOptions options = engine_options();
  auto const recorded = bits_of<SingleDevice<Microbatches<2>>>(options, 12);
  options.record = false;
  CHECK(recorded == bits_of<SingleDevice<Microbatches<2>>>(options, 12));
}

TEST_CASE("gradients rounded to 16 bits on the way are close to exact ones") {
  OnGpu<DataParallel<2>> exact{engine_options()};
  OnGpu<DataParallel<2, Wire<BFloat16>>> brain{engine_options()};
  engine_step(exact, 0);
  engine_step(brain, 0);
  // Two roundings before the sum and one after it, each half a unit in the last place.
  Difference const b = difference(brain.parameters(), exact.parameters(), Part::gradient);
  CHECK(b.error <= 3 * std::ldexp(1.0, -9));
  CHECK(b.error > std::ldexp(1.0, -13));  // it was rounded
  CHECK(brain.memory().wire == 2 * DeviceOf<decltype(brain)>::layout.trained);
}

}  // namespace parity_test
