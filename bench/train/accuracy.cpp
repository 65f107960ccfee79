// SPDX-License-Identifier: Apache-2.0

/// @file
/// Whether training in bf16 reaches what training in fp32 does: a small CNN on Fashion-MNIST.
///
///   bench_accuracy [--folder FOLDER] [--seeds 5] [--epochs 3] [--samples 20000] [--threads 1]
///
/// Trains from each seed on every backend that is compiled in, and prints each test accuracy, their
/// mean and standard deviation, and how far the means are apart in standard errors of their
/// difference. Exits with 1 if bf16 is further than 3 from fp32 on the same kernels.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace {

namespace td = tandem;

struct Net : td::models::SmallCnn<10> {};

struct Settings {
  int seeds;
  int epochs;
  std::int64_t samples;
  int threads;
};

/// The first samples of a data set.
template <class D>
struct FirstOf {
  using Target = typename D::Target;
  D const& data;
  std::int64_t count;

  [[nodiscard]] std::int64_t size() const { return std::min(count, data.size()); }
  [[nodiscard]] td::Shape shape() const { return data.shape(); }
  [[nodiscard]] int targets() const { return data.targets(); }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    data.read(index, x, y);
  }
};

struct Accuracies {
  std::string name;
  std::vector<double> of_seed;

  [[nodiscard]] double mean() const {
    double sum = 0.0;
    for (double const accuracy : of_seed) {
      sum += accuracy;
    }
    return sum / static_cast<double>(of_seed.size());
  }
  /// Of one run; 0 with a single seed.
  [[nodiscard]] double deviation() const {
    double sum = 0.0;
    for (double const accuracy : of_seed) {
      sum += (accuracy - mean()) * (accuracy - mean());
    }
    return of_seed.size() > 1 ? std::sqrt(sum / static_cast<double>(of_seed.size() - 1)) : 0.0;
  }
};

template <class Kernels, class Precision>
Accuracies train(td::FashionMnist const& data, Settings const& settings) {
  constexpr int batch = 128;
  FirstOf<td::IdxSplit> const train{data.train(), settings.samples};
  Accuracies result{std::string{Kernels::name} + " " + Precision::name, {}};
  td::bench::Stopwatch const watch;
  for (int seed = 1; seed <= settings.seeds; ++seed) {
    td::Trainer<Net, td::SingleDevice<>, td::BasicHost<Kernels, Precision>> trainer{
        {.batch = batch,
         .optimizer = td::Sgd{.learning_rate = 0.02F, .momentum = 0.9F, .weight_decay = 1e-4F},
         .schedule = td::Cosine{.steps = settings.epochs * (train.size() + batch - 1) / batch},
         .seed = static_cast<std::uint64_t>(seed),
         .threads_per_device = settings.threads}};
    for (auto const epoch : td::epochs(settings.epochs)) {
      trainer.train(train, epoch);
    }
    result.of_seed.push_back(trainer.evaluate(data.test()).accuracy);
  }
  std::printf("%-16s", result.name.c_str());
  for (double const accuracy : result.of_seed) {
    std::printf(" %.4f", accuracy);
  }
  std::printf("   mean %.4f  deviation %.4f  %.0f s\n", result.mean(), result.deviation(),
              watch.wall_s());
  std::fflush(stdout);
  return result;
}

/// The difference of the means in standard errors; printed.
double compare(Accuracies const& a, Accuracies const& b) {
  double const squares = a.deviation() * a.deviation() + b.deviation() * b.deviation();
  double const error = std::sqrt(squares / static_cast<double>(a.of_seed.size()));
  double const difference = b.mean() - a.mean();
  double const apart = difference == 0.0 ? 0.0 : std::abs(difference) / error;
  std::printf("%s against %s: %+.4f, %.1f standard errors\n", b.name.c_str(), a.name.c_str(),
              difference, apart);
  return apart;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{argc, argv, {"folder", "seeds", "epochs", "samples", "threads"}};
    td::FashionMnist const data{flags.text("folder", "/usr/share/datasets/fashion-mnist")};
    Settings const settings{.seeds = flags.number("seeds", 5),
                            .epochs = flags.number("epochs", 3),
                            .samples = flags.number("samples", 20000),
                            .threads = flags.number("threads", 1)};
    td::expects(settings.seeds >= 1 && settings.epochs >= 1 && settings.samples >= 1,
                "--seeds, --epochs and --samples must be 1 or more");
    std::printf("test accuracy of %d epochs on %lld of Fashion-MNIST's images, seeds 1 to %d\n",
                settings.epochs, static_cast<long long>(settings.samples), settings.seeds);
    std::vector<Accuracies> all{train<td::Portable, td::Fp32>(data, settings)};
#if defined(TANDEM_ONEDNN)
    all.push_back(train<td::OneDnn, td::Fp32>(data, settings));
    all.push_back(train<td::OneDnn, td::Bf16>(data, settings));
#endif
    double apart = 0.0;  // the last two
    for (std::size_t i = 1; i < all.size(); ++i) {
      apart = compare(all[i - 1], all[i]);
    }
    return apart <= 3.0 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_accuracy: %s\n", error.what());
    return 1;
  }
  return 0;
}
