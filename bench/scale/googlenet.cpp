// SPDX-License-Identifier: Apache-2.0

/// @file
/// GoogLeNet for CIFAR on two devices of one thread, which are threads of one process or two that
/// mpirun has started, a round at a time, for run.py to compare.
///
///   [mpirun -n 2] bench_scale_googlenet [--what step|alone|transfer] [--batch 32]
///
/// A round's work is, by --what: a training step of DataParallel<2> on the batch; one by each
/// device for itself, on half of it; or the sum over both of as many numbers as there are
/// gradients, by buckets as that strategy sums them, and nothing else. Process 0 prints a line of
/// JSON about itself; then, for each line "round N" that it reads, it is done N times, and the
/// answer is {"step_s": ..., "cpu_s": ...}: wall time of the slower process, CPU time of both.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tandem/mpi.hpp>

#include "../train/flags.hpp"
#include "../train/rounds.hpp"

namespace td = tandem;

namespace {

struct Net : td::models::GoogLeNet<10> {};

// Small ones, so that little is left to be sent when backward is done.
constexpr std::int64_t bucket_bytes = std::int64_t{1} << 20;
using Two = td::DataParallel<2, td::BucketBytes<bucket_bytes, bucket_bytes>>;
using Backend = td::OverMpi<td::Host>;

/// What process 0 says to the others of a run, who sleep until then; nothing where it is alone.
class Processes {
 public:
  explicit Processes(td::World const& world) : world_{world} {}

  [[nodiscard]] bool first() const { return world_.process == 0; }
  [[nodiscard]] int count() const { return world_.processes; }
  [[nodiscard]] td::World const& world() const { return world_; }

  /// The rounds that process 0 has read, or 0 at the end.
  int next() const {
    int steps = 0;
    if (first() && (std::scanf(" round %d", &steps) != 1 || steps < 0)) {
      steps = 0;
    }
    if (count() > 1) {
      MPI_Request request = MPI_REQUEST_NULL;
      td::check_mpi(MPI_Ibcast(&steps, 1, MPI_INT, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
      await(request);
    }
    return steps;
  }

  void barrier() const {
    if (count() > 1) {
      MPI_Request request = MPI_REQUEST_NULL;
      td::check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
      await(request, std::chrono::microseconds{50});
    }
  }

  [[nodiscard]] double all(double own, MPI_Op op) const {
    double result = own;
    if (count() > 1) {
      MPI_Request request = MPI_REQUEST_NULL;
      td::check_mpi(MPI_Iallreduce(&own, &result, 1, MPI_DOUBLE, op, MPI_COMM_WORLD, &request),
                    "MPI_Iallreduce");
      await(request);
    }
    return result;
  }

 private:
  /// Others are measured meanwhile, so that it must cost nothing.
  static void await(MPI_Request& request,
                    std::chrono::microseconds sleep = std::chrono::milliseconds{5}) {
    for (int done = 0; done == 0;) {
      td::check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) {
        std::this_thread::sleep_for(sleep);
      }
    }
  }

  td::World world_;
};

template <class Work>
void serve(Processes const& processes, Work const& work) {
  std::fflush(stdout);
  for (int steps = processes.next(); steps > 0; steps = processes.next()) {
    processes.barrier();
    td::bench::Stopwatch const watch;
    for (int i = 0; i < steps; ++i) {
      work();
    }
    double const wall = processes.all(watch.wall_s(), MPI_MAX);
    double const cpu = processes.all(watch.cpu_s(), MPI_SUM);
    if (processes.first()) {
      std::printf("{\"step_s\": %.9f, \"cpu_s\": %.9f}\n", wall / steps, cpu / steps);
      std::fflush(stdout);
    }
  }
}

td::TrainerOptions trainer_options(td::World const& world, int batch) {
  return {.batch = batch,
          .optimizer = td::Sgd{.learning_rate = 0.001F, .momentum = 0.9F},
          .threads_per_device = 1,
          .world = world};
}

template <class Strategy>
void train(Processes const& processes, td::World const& world, int batch) {
  td::Trainer<Net, Strategy, Backend> trainer{trainer_options(world, batch)};
  std::vector<float> x(static_cast<std::size_t>(batch) * 3 * 32 * 32);
  std::vector<std::int32_t> y(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = td::uniform(td::philox(1, td::RandomUse::user, i, 0).word[0]) - 0.5F;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<std::int32_t>(i % 10);
  }
  double const loss = trainer.step(x, y).loss;
  trainer.step(x, y);
  if (processes.first()) {
    std::printf("{\"processes\": %d, \"kernels\": \"%s\", \"loss\": %.6f}\n", processes.count(),
                td::DefaultHostKernels::name, loss);
  }
  serve(processes, [&] { trainer.step(x, y); });
}

/// Of all ranks of this process, which are one or two.
void transfer(Processes const& processes) {
  td::MpiTransport<2> transport{{.world = processes.world()}};
  constexpr auto elements = static_cast<std::size_t>(td::graph<Net>.parameter_elements());
  constexpr std::size_t bucket = bucket_bytes / sizeof(float);
  struct Rank {
    td::MpiCommunicator communicator;
    std::unique_ptr<td::host::Queue> queue = std::make_unique<td::host::Queue>();
    std::vector<float> numbers = std::vector<float>(elements, 0.5F);
  };
  std::vector<Rank> ranks;
  for (int r = 0; r < transport.local_ranks(); ++r) {
    ranks.push_back({transport.communicator(transport.first_rank() + r)});
  }
  auto const sum = [&] {
    for (std::size_t begin = 0; begin < elements; begin += bucket) {
      for (Rank& rank : ranks) {
        auto const some =
            std::span{rank.numbers}.subspan(begin, std::min(bucket, elements - begin));
        rank.communicator.all_reduce(some, some, td::Sum{}, *rank.queue);
      }
    }
    for (Rank& rank : ranks) {
      rank.queue->synchronize();
    }
  };
  sum();
  if (processes.first()) {
    std::printf("{\"processes\": %d, \"bytes\": %zu}\n", processes.count(),
                elements * sizeof(float));
  }
  serve(processes, sum);
}

}  // namespace

int main(int argc, char** argv) try {
  td::bench::Flags const flags{argc, argv, {"what", "batch"}};
  std::string const what = flags.text("what", "step");
  int const batch = flags.number("batch", 32);
  Processes const processes{td::mpi_world()};
  if (what == "step") {
    train<Two>(processes, processes.world(), batch);
  } else if (what == "alone") {
    train<td::SingleDevice<>>(processes, {}, batch / 2);
  } else if (what == "transfer") {
    transfer(processes);
  } else {
    td::expects(false, "--what is step, alone or transfer");
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_scale_googlenet: %s\n", error.what());
  return 1;
}
