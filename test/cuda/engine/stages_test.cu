// SPDX-License-Identifier: Apache-2.0

/// @file
/// A network cut over several ranks of one GPU trains as it does in one piece, bit for bit.

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <rank_of.hpp>

#include "stages_support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif

namespace stages_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

template <class S>
bool same_bits() {
  return stages_bits<OnGpu<S>>(engine_options()) == bits_of_one();
}

using R = Reproducible<>;

TEST_CASE("stages: ModelParallel") {
  CHECK(same_bits<ModelParallel<Split<4>, Split<5>, Microbatches<4>, R>>());
  CHECK(same_bits<ModelParallel<Split<2>, Split<2>, Split<2>, Split<3>, Microbatches<4>, R>>());
}

TEST_CASE("stages: GPipe and 1F1B") {
  CHECK(same_bits<Pipeline<GPipe, 4, Split<4>, Split<5>, R>>());
  CHECK(same_bits<Pipeline<OneFOneB, 4, Split<5>, Split<4>, R>>());
  CHECK(same_bits<Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<2>, Split<3>, R>>());
}

TEST_CASE("stages: Interleaved, ZB-H1, Chimera") {
  CHECK(same_bits<Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>, R>>());
  CHECK(same_bits<Pipeline<ZeroBubbleH1, 4, Split<4>, Split<5>, R>>());
  CHECK(same_bits<Pipeline<Chimera, 4, Split<4>, Split<5>, R>>());
}

using Turning = Pipeline<DualPipeV, 4, Split<2>, Split<2>, Split<2>, Split<3>, R>;

TEST_CASE("stages: two passes at the same time") {
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::set_races_shown(true);
#endif
  TrainerOptions options = engine_options();
  options.cuda.overlap_passes = true;
  CHECK(stages_bits<OnGpu<Turning>>(options) == bits_of_one());
  CHECK(stages_bits<OnGpu<Pipeline<DualPipe, 4, Split<4>, Split<5>, R>>>(options) == bits_of_one());
  options.record = false;
  CHECK(stages_bits<OnGpu<Turning>>(options) == bits_of_one());
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::set_races_shown(false);
#endif
  OnGpu<Turning> pairs{options};
  options.cuda.overlap_passes = false;
  OnGpu<Turning> apart{options};
  CHECK(rank_of(pairs).device().sides.size() == 1);
  CHECK(rank_of(apart).device().sides.empty());
  CHECK(pairs.memory().scratch > apart.memory().scratch);
  CHECK(pairs.memory().transient == apart.memory().transient);
}

#if defined(TANDEM_CUDA_EMULATED)
// Nothing in the queues has one of a pair's passes wait for the other: what they share, they race
// for.
TEST_CASE("stages: two passes that share scratch memory are found to race") {
  Watchdog const watchdog{"two passes that race"};
  cuda_emulator::set_races_shown(true);
  cuda_emulator::set_quiet(true);
  {
    TrainerOptions options = engine_options();
    options.cuda.overlap_passes = true;
    OnGpu<Turning> trainer{options};
    auto& device = rank_of(trainer).device();
    device.sides.front()->scratch = device.scratch;
    CHECK_THROWS(engine_bits(trainer, 3));
  }
  CHECK(cuda_emulator::last_report().find("on two streams") != std::string::npos);
  cuda_emulator::set_races_shown(false);
  cuda_emulator::set_quiet(false);
  cuda_emulator::clear_errors();
}
#endif

TEST_CASE("stages: with activations computed again") {
  using Boundary = Checkpoint<Boundaries>;
  CHECK(same_bits<Pipeline<OneFOneB, 4, Split<9>, R, Checkpoint<Every<3>>>>());
  CHECK(same_bits<ModelParallel<Split<4>, Split<5>, Microbatches<4>, R, Boundary>>());
  CHECK(same_bits<Pipeline<GPipe, 4, Split<4>, Split<5>, R, Checkpoint<Every<2>>>>());
  CHECK(same_bits<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R, Boundary>>());
  CHECK(same_bits<
        Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>, R, Boundary>>());
  CHECK(same_bits<Pipeline<Chimera, 4, Split<4>, Split<5>, R, Boundary>>());
}

TEST_CASE("stages: Hybrid") {
  CHECK(same_bits<Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<4>, Split<5>>>>());
  CHECK(same_bits<Hybrid<DataParallel<2, R>, Pipeline<Chimera, 2, Split<4>, Split<5>>>>());
  CHECK(same_bits<Hybrid<DataParallel<4, R>, ModelParallel<Split<4>, Split<5>>>>());
  CHECK(same_bits<Hybrid<DataParallel<2, R>, Pipeline<ZeroBubbleH1, 2, Split<4>, Split<5>>>>());
}

TEST_CASE("stages: other microbatches or another seed would be seen") {
  CHECK(stages_bits<OnGpu<SingleDevice<Microbatches<2>, R>>>(engine_options()) != bits_of_one());
  TrainerOptions options = engine_options();
  options.seed = 8;
  CHECK(stages_bits<OnGpu<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>>(options) != bits_of_one());
}

// In double, where gradients are added in another order than on one device.
template <class S>
void check_against_host() {
  Watchdog const watchdog{"a network in stages against the host"};
  OnHost<SingleDevice<Microbatches<4>>, Fp64> host{engine_options()};
  OnGpu<S, Fp64> gpu{engine_options()};
  for (int s = 0; s < 6; ++s) {
    StepResult const a = engine_step(host, s);
    StepResult const b = engine_step(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-11 * a.gradient_norm);
    CHECK(a.metric == b.metric);
  }
  Difference const off = difference(gpu.parameters(), host.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-11);
}

TEST_CASE("stages: as on the host, in double") {
  check_against_host<Pipeline<OneFOneB, 4, Split<4>, Split<5>>>();
  check_against_host<Pipeline<Chimera, 4, Split<4>, Split<5>>>();
  check_against_host<Hybrid<DataParallel<2>, Pipeline<GPipe, 2, Split<4>, Split<5>>>>();
}

TEST_CASE("stages: a device has the batch only if it has an end of the network") {
  OnGpu<Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<2>, Split<3>>> trainer{engine_options()};
  std::int64_t const samples = 16 * Trainer<TinyNet, SingleDevice<>, Host>::input.elements();
  auto const feed = [&](int rank) { return trainer.memory(rank).feed; };
  CHECK(feed(0) >= 3 * samples * static_cast<std::int64_t>(sizeof(float)));
  CHECK(feed(1) < 512);
  CHECK(feed(2) == feed(1));
  CHECK(feed(3) > feed(1));
  CHECK(feed(3) < feed(0) / 4);
}

TEST_CASE("stages: weights in 16 bits, and messages with them") {
  OnGpu<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>, Bf16> two{engine_options()};
  OnGpu<SingleDevice<Microbatches<4>, R>, Bf16> one{engine_options()};
  for (int s = 0; s < 4; ++s) {
    CHECK(engine_step(two, s).loss == engine_step(one, s).loss);
  }
}

}  // namespace stages_test
