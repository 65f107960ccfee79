// SPDX-License-Identifier: Apache-2.0

/// @file
/// A network cut over several GPUs that talk through NCCL: the bits of one GPU, steps recorded and
/// replayed.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <tandem/comm/nccl/transport.hpp>

#include <support/temporary_folder.hpp>

#include "stages_support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/nccl_control.hpp>
#endif

namespace stages_nccl_test {

using namespace tandem;
using namespace tandem::test;

template <class S>
using OnGpus =
    Trainer<TinyNet, S, BasicCuda<Portable, Fp32>, SoftmaxCrossEntropy<>, Accuracy, NcclTransport>;

template <class S>
void check_bits() {
  if (tandem::cuda::device_count() < S::ranks) {
    MESSAGE("skipped: needs " << S::ranks << " GPUs");
    return;
  }
  CHECK(stages_bits<OnGpus<S>>(recorded_options()) == bits_of_one());
}

using R = Reproducible<>;

TEST_CASE("stages by NCCL: 1F1B, on 2 and 4 GPUs") {
  check_bits<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>();
  check_bits<Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<2>, Split<3>, R>>();
}

TEST_CASE("stages by NCCL: devices that send to each other at the same time") {
  check_bits<Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>, R>>();
  check_bits<Pipeline<Chimera, 4, Split<4>, Split<5>, R, Checkpoint<Boundaries>>>();
}

TEST_CASE("stages by NCCL: ZB-H1, in two replicas") {
  check_bits<Hybrid<DataParallel<2, R>, Pipeline<ZeroBubbleH1, 2, Split<4>, Split<5>>>>();
}

TEST_CASE("stages by NCCL: too few hardware queues for the schedule are refused, not waited for") {
  using Two = OnGpus<Pipeline<OneFOneB, 4, Split<4>, Split<5>>>;
  if (tandem::cuda::device_count() < 2) {
    return;
  }
  { Two const sets{recorded_options()}; }
  std::string const before = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  CHECK(before == "32");
  CHECK(std::string{std::getenv("CUDA_MODULE_LOADING")} == "EAGER");
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
  CHECK_THROWS_WITH_AS(Two{recorded_options()},
                       doctest::Contains("the step would not end: rank 1: 1SEND_B0 waits"), Error);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", before.c_str(), 1);
}

#if defined(TANDEM_CUDA_EMULATED)

// All messages, in the order of their words.
std::vector<std::string> messages(bool captured) {
  std::vector<std::string> list;
  for (auto const& call : cuda_emulator::nccl_calls()) {
    if (call.operation != "ncclAllReduce") {
      CHECK(call.captured == captured);
      list.push_back(call.operation + " " + std::to_string(call.count));
    }
  }
  std::sort(list.begin(), list.end());
  return list;
}

TEST_CASE("stages by NCCL: the messages of a step, and none by the host when it is replayed") {
  Watchdog const watchdog{"messages"};
  using Two = OnGpus<Pipeline<OneFOneB, 2, Split<5>, Split<4>>>;
  Two trainer{recorded_options()};
  for (bool const captured : {false, true}) {  // walked, then recorded
    cuda_emulator::clear_nccl_calls();
    engine_step(trainer, 0);
    // 7 and 6 samples of (13, 8, 8), forward and backward.
    CHECK(messages(captured) == std::vector<std::string>{"ncclRecv 4992", "ncclRecv 4992",
                                                         "ncclRecv 5824", "ncclRecv 5824",
                                                         "ncclSend 4992", "ncclSend 4992",
                                                         "ncclSend 5824", "ncclSend 5824"});
  }
  cuda_emulator::clear_nccl_calls();
  engine_step(trainer, 0);
  CHECK(cuda_emulator::nccl_calls().empty());
  CHECK(cuda_emulator::nccl_misuses() == 0);
}

TEST_CASE("stages by NCCL: a rank that fails ends all") {
  Watchdog const watchdog{"failure"};
  TrainerOptions options = engine_options();
  options.timeout = std::chrono::milliseconds{2000};
  OnGpus<Pipeline<OneFOneB, 4, Split<4>, Split<5>>> trainer{options};
  engine_step(trainer, 0);
  cuda_emulator::break_nccl(1, ncclSystemError);
  std::string const text = message<RankError>([&] { engine_step(trainer, 1); });
  INFO(text);
  CHECK(text.find("NCCL") != std::string::npos);
  CHECK_THROWS_AS(engine_step(trainer, 2), ContractError);
}

#endif

}  // namespace stages_nccl_test
