// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Trainer whose ranks talk through NCCL: what it calls, and that it trains like one device.

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "nccl_support.hpp"
#include "support.hpp"

#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/nccl_control.hpp>
#endif

namespace nccl_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

template <class S, class Precision = Fp32>
using OnGpus = Trainer<TinyNet, S, BasicCuda<Portable, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                       NcclTransport>;

TEST_CASE("NCCL: 2 GPUs train as one does, walked and replayed") {
  Watchdog const watchdog{"NCCL"};
  if (!enough_gpus(2)) {
    return;
  }
  OnGpu<SingleDevice<Microbatches<2>>, Fp64> one{engine_options()};
  OnGpus<DataParallel<2, BucketBytes<64, 256>>, Fp64> two{recorded_options()};
  for (int s = 0; s < 7; ++s) {
    StepResult const a = engine_step(one, s);
    StepResult const b = engine_step(two, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-12 * a.loss);
  }
  Difference const off = difference(two.parameters(1), one.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-11);
  CHECK(first_difference(two.parameters(0), two.parameters(1)) == "");
}

TEST_CASE("NCCL: reproducible, the same bits as one GPU") {
  Watchdog const watchdog{"NCCL"};
  if (!enough_gpus(4)) {
    return;
  }
  OnGpu<SingleDevice<Microbatches<4>, Reproducible<>>> one{engine_options()};
  OnGpus<DataParallel<4, Reproducible<>>> four{recorded_options()};
  for (int s = 0; s < 4; ++s) {
    CHECK(engine_step(one, s).loss == engine_step(four, s).loss);
  }
  CHECK(first_difference(four.parameters(2), one.parameters()) == "");
}

TEST_CASE("NCCL: two processes read one checkpoint and count one confusion, each a share") {
  Watchdog const watchdog{"NCCL processes"};
  if (!enough_gpus(2)) {
    return;
  }
  auto const data = dataset(TinyNet::input::shape, 5, 13, 3);
  OnGpu<SingleDevice<Microbatches<2>>> one{engine_options()};
  engine_step(one, 0);
  Confusion const wanted = one.confusion(data);
  auto const parameters = values_of(one.parameters());
  TemporaryFolder const folder;
  one.save(folder.file("one"));
  std::vector<Confusion> found(2, Confusion{5});
  std::vector<LoadedBytes> loaded(2);
  std::vector<int> same(2);
  std::vector<std::thread> threads;
  for (int process = 0; process < 2; ++process) {
    threads.emplace_back([&, process] {
      TrainerOptions options = engine_options();
      options.world = {.processes = 2,
                       .process = process,
                       .local_process = process,
                       .rendezvous = {.address = "file:" + folder.file("meet")}};
      auto const own = static_cast<std::size_t>(process);
      OnGpus<DataParallel<2>> trainer{options};
      trainer.load(folder.file("one"));
      loaded[own] = trainer.loaded_bytes();
      same[own] = values_of(trainer.parameters()) == parameters ? 1 : 0;
      found[own] = trainer.confusion(data);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wanted.samples() == 13);
  CHECK(found[0] == wanted);
  CHECK(found[1] == wanted);
  CHECK(same == std::vector<int>{1, 1});
  CHECK(loaded[0].received == loaded[1].read);
  CHECK(loaded[1].received + 4 * 8 == loaded[0].read);  // the position, process 0 tells
}

#if defined(TANDEM_CUDA_EMULATED)

// One call a line.
std::string calls_of(int rank) {
  std::string text;
  for (auto const& call : cuda_emulator::nccl_calls(rank)) {
    text += to_string(call) + (call.captured ? ", captured\n" : "\n");
  }
  return text;
}

TEST_CASE("NCCL: a step makes the calls that one would write by hand") {
  Watchdog const watchdog{"NCCL"};
  using Two = OnGpus<DataParallel<2, BucketBytes<64, 256>>>;
  Two trainer{recorded_options()};
  // The lanes of a loss and a metric. Then TinyNet from the back, every parameter rounded up
  // to 16 elements, a bucket closed at 256 bytes: Linear (65, 5); two branches' convolutions (18,
  // 3; 24, 4); batch norm (6, 6, and what becomes its statistics: 6, 6); convolution (324); the
  // same of the first layers (4 x 6; 162).
  for (char const* const end : {"\n", ", captured\n"}) {  // walked, then recorded
    std::string wanted = std::string{"ncclAllReduce 176 float64 sum"} + end;
    for (char const* const count : {"96", "96", "64", "336", "64", "176"}) {
      wanted += std::string{"ncclAllReduce "} + count + " float32 sum" + end;
    }
    cuda_emulator::clear_nccl_calls();
    engine_step(trainer, 0);
    CHECK(calls_of(0) == wanted);
    CHECK(calls_of(1) == wanted);
  }
  cuda_emulator::clear_nccl_calls();
  engine_step(trainer, 0);
  CHECK(calls_of(0).empty());  // replayed: the host calls nothing but the launch
  CHECK(cuda_emulator::nccl_misuses() == 0);
}

TEST_CASE("NCCL: ranks of one process walk their steps unless they are told to record") {
  Watchdog const watchdog{"NCCL"};
  OnGpus<DataParallel<2>> trainer{engine_options()};
  for (int step : {0, 0, 0}) {
    cuda_emulator::clear_nccl_calls();
    engine_step(trainer, step);
    REQUIRE(!cuda_emulator::nccl_calls(0).empty());
    CHECK(!cuda_emulator::nccl_calls(0).front().captured);
  }
}

TEST_CASE("NCCL: evaluation reduces losses only") {
  using Two = OnGpus<DataParallel<2>>;
  Two trainer{engine_options()};
  cuda_emulator::clear_nccl_calls();
  trainer.evaluate(dataset(Two::input, 5, largest_batch, 3));
  CHECK(calls_of(1) == "ncclAllReduce 176 float64 sum\n");
}

TEST_CASE("NCCL: a rank that fails ends all, with its message, within the time-out") {
  Watchdog const watchdog{"NCCL"};
  TrainerOptions options = engine_options();
  options.timeout = std::chrono::milliseconds{2000};
  OnGpus<DataParallel<2>> trainer{options};
  engine_step(trainer, 0);
  cuda_emulator::break_nccl(1, ncclSystemError);
  std::string const text = message<RankError>([&] { engine_step(trainer, 1); });
  INFO(text);
  CHECK(text.find("rank") != std::string::npos);
  CHECK(text.find("NCCL") != std::string::npos);
  CHECK_THROWS_AS(engine_step(trainer, 2), ContractError);
}

#endif

}  // namespace nccl_test
