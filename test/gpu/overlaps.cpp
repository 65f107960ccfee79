// SPDX-License-Identifier: Apache-2.0
// Whether steps whose work overlaps on one GPU have the bits of steps that do not, and how long
// they
// take: branches on streams of their own, and kernels that begin while the one before them ends.
//
//   gpu_overlaps plain|branches|launches|both
//
// GoogLeNet in bf16, reproducible: 30 recorded steps of 16 samples. The last line
// but one is a checksum of losses and parameters, the last "answer: ...". Ends with 0.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <tandem/cuda.cuh>

namespace {

namespace td = tandem;

struct Net : td::models::GoogLeNet<10> {};
using Strategy = td::SingleDevice<td::Reproducible<>>;
#if defined(TANDEM_CUDNN)
using Backend = td::BasicCuda<td::CuDnn, td::Bf16>;
#else
using Backend = td::BasicCuda<td::Portable, td::Bf16>;
#endif

std::uint64_t added(std::uint64_t sum, void const* bytes, std::size_t count) {
  auto const* const at = static_cast<unsigned char const*>(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    sum = (sum ^ at[i]) * 1099511628211ULL;  // FNV-1a
  }
  return sum;
}

int run(td::CudaOptions const& options, char const* name) {
  constexpr int batch = 16;
  constexpr int steps = 30;
  td::Trainer<Net, Strategy, Backend> trainer{
      {.batch = batch, .optimizer = td::Sgd{.learning_rate = 0.01F}, .cuda = options}};
  std::vector<float> x(static_cast<std::size_t>(batch * trainer.input.elements()));
  std::vector<std::int32_t> y(batch);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 2654435761U % 1000U) / 500.0F - 1.0F;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<std::int32_t>(i % 10);
  }
  std::uint64_t sum = 14695981039346656037ULL;
  auto begin = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) {
    if (step == 10) {  // walked, recorded and warm
      begin = std::chrono::steady_clock::now();
    }
    double const loss = trainer.step(x, y).loss;
    sum = added(sum, &loss, sizeof loss);
  }
  double const seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (auto const& p : trainer.parameters()) {
    sum = added(sum, p.value.data(), p.value.size() * sizeof p.value[0]);
  }
  std::printf("bits %016llx\n", static_cast<unsigned long long>(sum));
  std::printf("answer: %s: %.3f ms a step of %d samples, %lld MiB of scratch memory\n", name,
              1000.0 * seconds / (steps - 10), batch,
              static_cast<long long>(trainer.memory().scratch >> 20));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const which = argc == 2 ? argv[1] : "";
  bool const both = which == "both";
  if (!both && which != "plain" && which != "branches" && which != "launches") {
    std::fputs("usage: gpu_overlaps plain|branches|launches|both\n", stderr);
    return 2;
  }
  return run({.branches = both || which == "branches" ? 4 : 1,
              .overlap_launches = both || which == "launches"},
             which.c_str());
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
