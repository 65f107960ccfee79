// SPDX-License-Identifier: Apache-2.0

/// @file
/// GPUs that share tables of words by NCCL: recorded steps have the bits of walked ones in fp32 and
/// in bf16, nothing races, and stages of them train as one device does.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <compare.hpp>
#include <split_words.hpp>
#include <support/watchdog.hpp>

#include "nccl_support.hpp"
#include "slices_support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#include <emulator/nccl_control.hpp>
#endif

namespace cuda_tables_nccl_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using Alone = SingleDevice<Microbatches<2>>;

/// Bits of recorded and of walked steps; and the losses of the host in double, within @p bound.
template <class S, class Precision, class Net>
void check_recorded(double bound) {
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"tables by NCCL"};
  NoRaces const races;
  using Many = OnGpus<S, Precision, NcclTransport, Net>;
  Many walked{shared_options(false)};
  Many recorded{shared_options(true)};
  auto const wanted = shared_steps(walked, 7);
  auto const results = shared_steps(recorded, 7);
  CHECK(bits_of(recorded, results) == bits_of(walked, wanted));
  CHECK(bits_of(recorded, results, S::ranks - 1) == bits_of(walked, wanted));
  Trainer<Net, Alone, BasicHost<Portable, Fp64>> host{gpt_options()};
  auto const exact = shared_steps(host, 7);
  for (std::size_t s = 0; s < exact.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(results[s].loss - exact[s].loss) <= bound);
  }
}

TEST_CASE("GPUs that share words: recorded steps have the bits of walked ones, on all") {
  check_recorded<SplitWords<2>, Fp32, FreeWords>(1e-4);
  check_recorded<SplitWords<4>, Fp32, FreeWords>(1e-4);
  check_recorded<SplitTied, Fp32, TiedWords>(1e-4);
}

TEST_CASE("GPUs that share words: so they have in bf16, and replicas of them") {
  check_recorded<SplitWords<2>, Bf16, FreeWords>(0.1);
  check_recorded<Hybrid<DataParallel<2>, TensorParallel<2, SplitOutputs<"3">>>, Bf16, TiedWords>(
      0.1);
}

template <class S, class Net>
void check_as_one_device() {
  if (!enough_gpus(S::ranks)) {
    return;
  }
  Watchdog const watchdog{"stages of tables by NCCL"};
  NoRaces const races;
  Trainer<Net, Alone, BasicHost<Portable, Fp64>> one{gpt_options()};
  OnGpus<S, Fp64, NcclTransport, Net> many{shared_options(true)};
  auto const a = shared_steps(one, 4);
  auto const b = shared_steps(many, 4);
  for (std::size_t s = 0; s < a.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(a[s].loss - b[s].loss) <= 1e-11);
    CHECK(std::fabs(a[s].gradient_norm - b[s].gradient_norm) <= 1e-10);
    CHECK(a[s].metric == b[s].metric);
  }
  for (int const copy : {0, 1}) {  // of the model, in the order of the ranks
    Difference const off = difference(many.parameters(copy), one.parameters(), Part::value);
    INFO(off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-10);
  }
}

// The first and the last stage have slices of one table.
TEST_CASE("GPUs that share words: stages of them, whose ends share a table") {
  check_as_one_device<
      Hybrid<Pipeline<OneFOneB, 2, Split<2>, Split<2>>, TensorParallel<2, SplitInputs<0>>>,
      TiedWords>();
}

#if defined(TANDEM_CUDA_EMULATED)

// Of each microbatch: the words that are looked up, the pair, and the gradient of what the
// criterion reads; and four doubles of each row and device, once.
TEST_CASE("GPUs that share words: what a step sends, and nothing by the host when replayed") {
  Watchdog const watchdog{"calls of tables"};
  OnGpus<TensorParallel<2, SplitInputs<0>, SplitOutputs<3>>, Fp32, NcclTransport, FreeWords>
      trainer{shared_options(true)};
  std::string const rows = "ncclAllReduce " + std::to_string(9 * gpt_time * 8) + " float32 sum";
  std::string const parts = "ncclAllGather " + std::to_string(9 * gpt_time * 4) + " float64";
  for (bool const captured : {false, true}) {
    cuda_emulator::clear_nccl_calls();
    gpt_step(trainer, 0);
    for (int rank = 0; rank < 2; ++rank) {
      std::size_t sums = 0;
      std::size_t gathers = 0;
      auto const calls = cuda_emulator::nccl_calls(rank);
      for (auto const& call : calls) {
        CHECK(call.captured == captured);
        sums += cuda_emulator::to_string(call) == rows ? 1U : 0U;
        gathers += cuda_emulator::to_string(call).rfind(parts, 0) == 0 ? 1U : 0U;
      }
      CHECK(sums == 4);
      CHECK(gathers == 1);
      CHECK(calls.size() == 7);
    }
  }
  cuda_emulator::clear_nccl_calls();
  gpt_step(trainer, 0);
  CHECK(cuda_emulator::nccl_calls().empty());
}

#endif

}  // namespace cuda_tables_nccl_test
