// SPDX-License-Identifier: Apache-2.0

/// @file
/// GPUs that share the channels of images: the numbers of one device on the host, with portable
/// kernels and with cuDNN, whole files, and recorded steps with the bits of walked ones.

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include <shared_channels.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "support.hpp"

#if defined(TANDEM_CUDNN) && defined(TANDEM_NCCL)
#include <tandem/comm/nccl/transport.hpp>
#endif

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif

namespace channel_parallel_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using Two = ChannelParallel<2, Microbatches<2>>;
using One = SingleDevice<Microbatches<2>>;

/// @param bound  relative of losses and norms, and of @p parts
template <class Host, class Gpus>
void check_as_one_device(Host& one, Gpus& two, double bound, std::initializer_list<Part> parts) {
  CHECK(first_difference(two.parameters(1), one.parameters()) == "");
  for (int s = 0; s < 4; ++s) {
    INFO("step " << s);
    StepResult const a = engine_step(one, s);
    StepResult const b = engine_step(two, s);
    CHECK(std::fabs(a.loss - b.loss) <= bound * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 10 * bound * a.gradient_norm);
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (Part const part : parts) {
      Difference const off = difference(two.parameters(rank), one.parameters(), part);
      INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= 10 * bound);
    }
  }
}

TEST_CASE("two ranks that share channels train as one device on the host; files are whole") {
  Watchdog const watchdog{"shared channels"};
  OnHost<One, Fp64, Channels> one{engine_options()};
  OnGpu<Two, Fp64, Channels> two{engine_options()};
  check_as_one_device(one, two, 1e-11, {Part::value, Part::gradient});
  TemporaryFolder const folder;
  two.save(folder.file("two"));
  OnGpu<Two, Fp64, Channels> again{engine_options()};
  again.load(folder.file("two"));
  again.save(folder.file("again"));
  CHECK(content(folder.file("again")) == content(folder.file("two")));
  CHECK(first_difference(again.parameters(1), two.parameters()) == "");
}

TEST_CASE("channels in two slices: one and two GPUs have the same bits") {
  Watchdog const watchdog{"slices of channels"};
  using R = Reproducible<>;
  OnGpu<SingleDevice<Slices<2>, Microbatches<2>, R>, Fp32, Channels> one{engine_options()};
  OnGpu<ChannelParallel<2, Microbatches<2>, R>, Fp32, Channels> two{engine_options()};
  CHECK(engine_bits(two, 4) == engine_bits(one, 4));
}

#if defined(TANDEM_CUDNN) && defined(TANDEM_NCCL)

template <class S, class Precision>
using ByCuDnn =
    Trainer<Blocks, S, BasicCuda<CuDnn, Precision>, SoftmaxCrossEntropy<>, Accuracy, NcclTransport>;

TEST_CASE("GPUs that share channels: with cuDNN, walked and recorded, of siblings that are one") {
  if (tandem::cuda::device_count() < 2) {
    MESSAGE("skipped: needs 2 GPUs");
    return;
  }
  Watchdog const watchdog{"shared channels by NCCL"};
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::set_races_shown(true);
#endif
  OnHost<One, Fp32, Blocks> one{engine_options()};
  ByCuDnn<Two, Fp32> walked{engine_options()};
  // The gradient of a bias before a batch norm is nothing but rounding.
  check_as_one_device(one, walked, 2e-5, {Part::value});
  ByCuDnn<Two, Fp32> recorded{recorded_options()};
  ByCuDnn<Two, Fp32> again{engine_options()};
  CHECK(engine_bits(recorded, 7) == engine_bits(again, 7));
#if defined(TANDEM_CUDA_EMULATED)
  CHECK(cuda_emulator::last_report() == "");
  cuda_emulator::set_races_shown(false);
#endif
}

#endif

}  // namespace channel_parallel_test
