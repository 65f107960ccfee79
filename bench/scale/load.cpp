// SPDX-License-Identifier: Apache-2.0

/// @file
/// What several processes take to load a checkpoint of 251 MB: bytes, time, and how far memory
/// grows.
///
///   bench_scale_load --save FILE
///   mpirun -n 2 bench_scale_load FILE
///
/// The network is two linear layers with Adam's states, under DataParallel<>, a rank a process.
/// Each process loads seven times and prints its least times, CPU and by the clock on the wall.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <string_view>

#include <tandem/mpi.hpp>

namespace td = tandem;

namespace {

struct Net
    : td::Network<td::Image<1, 64, 64>,
                  td::Sequential<td::Flatten, td::Linear<4096>, td::ReLU, td::Linear<1000>>> {};

rusage usage() {
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  return own;
}

double seconds(timeval const& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_seconds() {
  rusage const own = usage();
  return seconds(own.ru_utime) + seconds(own.ru_stime);
}

long most_mebibytes() { return usage().ru_maxrss / 1024; }

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_scale_load [--save] FILE\n");
    return 1;
  }
  td::World const world = td::mpi_world();
  td::Trainer<Net, td::DataParallel<>, td::OverMpi<td::Host>> trainer{
      {.batch = 64, .optimizer = td::Adam{}, .threads_per_device = 1, .world = world}};
  if (std::string_view{argv[1]} == "--save" && argc > 2) {
    trainer.save(argv[2]);
    return 0;
  }
  using Clock = std::chrono::steady_clock;
  long const before = most_mebibytes();
  double cpu = std::numeric_limits<double>::max();
  double wall = cpu;
  for (int i = 0; i < 7; ++i) {
    double const begin_cpu = cpu_seconds();
    auto const begin = Clock::now();
    trainer.load(argv[1]);
    wall = std::min(wall, std::chrono::duration<double>(Clock::now() - begin).count());
    cpu = std::min(cpu, cpu_seconds() - begin_cpu);
  }
  td::LoadedBytes const loaded = trainer.loaded_bytes();
  std::printf("process %d: %lld bytes read, %lld received; CPU %.3f s, wall %.3f s; +%ld MiB\n",
              world.process, static_cast<long long>(loaded.read),
              static_cast<long long>(loaded.received), cpu, wall, most_mebibytes() - before);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
