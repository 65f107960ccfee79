// SPDX-License-Identifier: Apache-2.0

/// @file
/// Layers in as many slices on any number of GPUs: the same bits, in fp32 and bf16, by NCCL and on
/// one GPU, recorded and walked.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <tandem/comm/nccl/transport.hpp>

#include <support/watchdog.hpp>

#include "slices_support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#include <emulator/nccl_control.hpp>
#endif

namespace cuda_slices_test {

using namespace tandem;
using namespace tandem::test;

/// Four heads of keys, a gate, and masks within rows: each divides by four.
struct Quarters
    : Network<Tokens<gpt_time, gpt_words>,
              Sequential<
                  Embedding<gpt_words, 8>,
                  Residual<Sequential<LayerNorm<>, Linear<32>, RotaryPositions<8, KeyHeads<4>>,
                                      Attention<8, Causal, KeyHeads<4>, Percent<20>>, Linear<8>>>,
                  Residual<Sequential<RmsNorm<>, Linear<16>, SwiGlu, Dropout<Percent<25>>,
                                      Linear<8>, Dropout<Percent<10>>>>,
                  Vocabulary<gpt_words>>> {};

using One = SingleDevice<Slices<4>, Microbatches<2>, Reproducible<>>;
using Two = TensorParallel<2, Slices<4>, Microbatches<2>, Reproducible<>>;
using Four = TensorParallel<4, Microbatches<2>, Reproducible<>>;
constexpr int steps = 5;

template <class S, class Precision, template <int> class Transport = VirtualTransport>
void check_bits(std::vector<double> const& wanted, bool record) {
  Watchdog const watchdog{"the bits of slices"};
  OnGpus<S, Precision, Transport, Quarters> trainer{shared_options(record)};
  auto const results = shared_steps(trainer, steps);
  CHECK(bits_of(trainer, results) == wanted);
  CHECK(bits_of(trainer, results, S::ranks - 1) == wanted);
}

template <class S, class Precision>
void check_nccl(std::vector<double> const& wanted) {
  if (tandem::cuda::device_count() < S::ranks) {
    MESSAGE("skipped: needs " << S::ranks << " GPUs");
    return;
  }
#if defined(TANDEM_CUDA_EMULATED)
  cuda_emulator::set_races_shown(true);
#endif
  for (bool const record : {false, true}) {
    INFO((record ? "recorded" : "walked"));
    check_bits<S, Precision, NcclTransport>(wanted, record);
  }
#if defined(TANDEM_CUDA_EMULATED)
  CHECK(cuda_emulator::last_report() == "");
  CHECK(cuda_emulator::nccl_misuses() == 0);
  cuda_emulator::set_races_shown(false);
#endif
}

TEST_CASE("layers in four slices: one, two and four GPUs have the same bits") {
  OnGpus<One, Fp32, VirtualTransport, Quarters> one{shared_options(false)};
  Trainer<Quarters, One, BasicHost<Portable, Fp64>> host{gpt_options()};
  auto const results = shared_steps(one, steps);
  auto const exact = shared_steps(host, steps);
  for (std::size_t s = 0; s < results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(results[s].loss - exact[s].loss) <= 1e-4);
    CHECK(results[s].gradient_norm > 0.5);  // it is clipped
  }
  auto const wanted = bits_of(one, results);
  check_bits<Two, Fp32>(wanted, false);
  check_nccl<Four, Fp32>(wanted);
  check_nccl<Hybrid<DataParallel<2, ShardedState, Reproducible<>>, TensorParallel<2, Slices<4>>>,
             Fp32>(wanted);
}

TEST_CASE("so they have in bf16, where each sum of slices is rounded") {
  OnGpus<One, Bf16, VirtualTransport, Quarters> one{shared_options(false)};
  auto const wanted = bits_of(one, shared_steps(one, steps));
  check_bits<Four, Bf16>(wanted, false);
  check_nccl<Two, Bf16>(wanted);
}

}  // namespace cuda_slices_test
