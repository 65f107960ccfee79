// SPDX-License-Identifier: Apache-2.0

/// @file
/// GPUs that share each layer and add by NCCL: recorded steps have the bits of walked ones, nothing
/// races, and replicas and stages of them train as one device does.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <compare.hpp>
#include <support/watchdog.hpp>

#include "nccl_support.hpp"
#include "slices_support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#include <emulator/nccl_control.hpp>
#endif

namespace tensor_parallel_nccl_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

template <class S, class Precision>
void check_recorded() {
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"slices by NCCL"};
  NoRaces const races;
  using Many = OnGpus<S, Precision, NcclTransport>;
  Many walked{shared_options(false)};
  Many recorded{shared_options(true)};
  auto const wanted = shared_steps(walked, 7);
  auto const results = shared_steps(recorded, 7);
  CHECK(bits_of(recorded, results) == bits_of(walked, wanted));
  CHECK(bits_of(recorded, results, 1) == bits_of(walked, wanted));
}

TEST_CASE("GPUs that share layers: recorded steps have the bits of walked ones, on both") {
  check_recorded<TensorParallel<2, Microbatches<2>>, Fp32>();
}

TEST_CASE("GPUs that share layers: replicas of them, in bf16") {
  check_recorded<Hybrid<DataParallel<2>, TensorParallel<2>>, Bf16>();
}

TEST_CASE("GPUs that share layers: replicas of them that have their rows, in bf16") {
  check_recorded<Hybrid<DataParallel<2>, TensorParallel<2, SequenceRows>>, Bf16>();
}

TEST_CASE("GPUs that share layers: stages of them train as one device on the host does") {
  using S = Hybrid<Pipeline<OneFOneB, 2, Split<3>, Split<4>>, TensorParallel<2>>;
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"stages of slices by NCCL"};
  NoRaces const races;
  Trainer<SharedLayers, SingleDevice<Microbatches<2>>, BasicHost<Portable, Fp64>> one{
      gpt_options()};
  OnGpus<S, Fp64, NcclTransport> four{shared_options(true)};
  auto const a = shared_steps(one, 6);
  auto const b = shared_steps(four, 6);
  for (std::size_t s = 0; s < a.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(a[s].loss - b[s].loss) <= 1e-11 * a[s].loss);
    CHECK(std::fabs(a[s].gradient_norm - b[s].gradient_norm) <= 1e-10 * a[s].gradient_norm);
  }
  Difference const off = difference(four.parameters(1), one.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-10);
}

#if defined(TANDEM_CUDA_EMULATED)

// Three pairs of products, of which each adds its rows in forward and its input's gradient in
// backward; the lanes of a loss and a metric; a square sum of each parameter.
TEST_CASE("GPUs that share layers: what a step sends, and nothing by the host when replayed") {
  Watchdog const watchdog{"calls of slices"};
  OnGpus<TensorParallel<2>, Fp32, NcclTransport> trainer{shared_options(true)};
  std::string const rows = "ncclAllReduce " + std::to_string(9 * gpt_time * 8) + " float32 sum";
  for (bool const captured : {false, true}) {
    cuda_emulator::clear_nccl_calls();
    gpt_step(trainer, 0);
    for (int rank = 0; rank < 2; ++rank) {
      std::size_t sums = 0;
      auto const calls = cuda_emulator::nccl_calls(rank);
      for (auto const& call : calls) {
        CHECK(call.captured == captured);
        sums += cuda_emulator::to_string(call) == rows ? 1U : 0U;
      }
      CHECK(sums == 6);
      CHECK(calls.size() == 8);
    }
  }
  cuda_emulator::clear_nccl_calls();
  gpt_step(trainer, 0);
  CHECK(cuda_emulator::nccl_calls().empty());
}

#endif

}  // namespace tensor_parallel_nccl_test
