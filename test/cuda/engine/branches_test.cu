// SPDX-License-Identifier: Apache-2.0

/// @file
/// Branches on streams of their own change no bit and race with nothing, walked and recorded; and
/// would, if they shared what they have apart.

#include <tandem/cuda.cuh>

#include <doctest/doctest.h>

#include <utility>

#include <tandem/strategy/fits.hpp>

#include <rank_of.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif

#if defined(TANDEM_CUDNN)
namespace tandem::test {
namespace branches_test {

using Kernels = CuDnn;

template <int Out, class... Options>
using Normed = Sequential<Conv2d<Out, Options...>, BatchNorm2d<>, ReLU>;

/// A module with merged 1x1 convolutions and a placed join, one whose branches keep a bias, and a
/// shortcut that computes.
struct Forks
    : Network<
          Image<3, 6, 6>,
          Sequential<
              Normed<8, Kernel<3>, Padding<1>>,
              Concat<Normed<8>, Sequential<Normed<4>, Normed<8, Kernel<3>, Padding<1>>>,
                     Sequential<Normed<2>, Normed<3, Kernel<5>, Padding<2>>>,
                     Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, Normed<5>>>,
              Concat<Conv2d<3, Kernel<3>, Padding<1>>, Sequential<Conv2d<4>, ReLU, Conv2d<2>>>,
              Residual<Sequential<Conv2d<6, Kernel<3>, Padding<1>>, ReLU, Dropout<>>, Conv2d<6>>,
              GlobalAvgPool, Linear<5>>> {};

template <class Precision, class S = SingleDevice<Microbatches<2>>>
using OnCuDnn = Trainer<Forks, S, BasicCuda<Kernels, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                        VirtualTransport>;

TrainerOptions options(int branches, bool record = true, bool overlaps = false) {
  TrainerOptions own = engine_options();
  own.record = record;
  own.cuda = {.branches = branches, .overlap_launches = overlaps};
  return own;
}

template <class Trainer>
std::vector<double> bits_with(int branches, bool record = true, bool overlaps = false) {
  Trainer trainer{options(branches, record, overlaps)};
  std::vector<double> numbers = engine_bits(trainer, 6);
  for (float const y : trainer.predict(dataset(Trainer::input, 5, 7, 3))) {
    numbers.push_back(y);
  }
  return numbers;
}

#if defined(TANDEM_CUDA_EMULATED)
struct Races {
  Races() { cuda_emulator::set_races_shown(true); }
  ~Races() {
    cuda_emulator::set_races_shown(false);
    cuda_emulator::set_quiet(false);
    cuda_emulator::clear_errors();
  }
};
#else
struct Races {
  ~Races() {}
};
#endif

TEST_CASE("branches at the same time: the same bits, recorded and walked, in fp32 and bf16") {
  Watchdog const watchdog{"branches"};
  Races const races;
  auto const one = bits_with<OnCuDnn<Fp32>>(1);
  CHECK(one == bits_with<OnCuDnn<Fp32>>(2));
  CHECK(one == bits_with<OnCuDnn<Fp32>>(4));
  CHECK(one == bits_with<OnCuDnn<Fp32>>(4, false));
  auto const narrow = bits_with<OnCuDnn<Bf16>>(1);
  CHECK(narrow == bits_with<OnCuDnn<Bf16>>(3));
  CHECK(narrow == bits_with<OnCuDnn<Bf16>>(1, true, true));  // and kernels that begin early
  CHECK(narrow == bits_with<OnCuDnn<Bf16>>(3, true, true));
}

TEST_CASE("branches at the same time: several ranks, whose buckets end within a branch") {
  Watchdog const watchdog{"branches"};
  using Two = OnCuDnn<Fp32, DataParallel<2, Reproducible<2>, BucketBytes<1, 1>>>;
  CHECK(bits_with<Two>(1) == bits_with<Two>(3));
}

TEST_CASE("branches at the same time take memory, and say how much") {
  OnCuDnn<Fp32> const one{options(1)};
  OnCuDnn<Fp32> const four{options(4)};
  CHECK(four.memory().scratch > 2 * one.memory().scratch);
  CHECK(four.memory().kept == one.memory().kept);
  for (auto const& [report, streams] : {std::pair{one.memory(), 1}, std::pair{four.memory(), 4}}) {
    DeviceMemory const most = device_memory<Forks, SingleDevice<Microbatches<2>>, Sgd, Fp32>(
        largest_batch, 0, WeightAverages::none, streams);
    CHECK(report.transient <= most.passing + most.activation_gradients);
    CHECK(report.kept + report.transient <= most.kept + most.passing + most.activation_gradients);
  }
}

#if defined(TANDEM_CUDA_EMULATED)
TEST_CASE("branches that share scratch memory are found to race") {
  Races const races;
  OnCuDnn<Fp32> trainer{options(4)};
  auto& device = rank_of(trainer).device();
  REQUIRE(device.sides.size() == 3);
  for (auto& side : device.sides) {
    side->scratch = device.scratch;
  }
  cuda_emulator::set_quiet(true);
  CHECK_THROWS(engine_bits(trainer, 3));
  CHECK(cuda_emulator::last_report().find("on two streams") != std::string::npos);
}
#endif

}  // namespace branches_test
}  // namespace tandem::test
#endif
