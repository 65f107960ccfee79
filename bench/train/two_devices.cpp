// SPDX-License-Identifier: Apache-2.0

/// @file
/// nanoGPT's model on two devices of one thread each, by TensorParallel, DataParallel and
/// ShardedState, beside one device of two threads.
///
///   bench_two_devices [--batch 4] [--rounds 9] [--steps 4]
///
/// 6 layers, 6 heads, 384 channels, 256 tokens of 65 kinds, AdamW, fp32. All take turns, in one
/// order and then in the reverse; medians of wall time. Exits with 1 if TensorParallel<2> has less
/// than 0.90 of the one device's throughput, or ShardedState less than 0.97 of DataParallel<2>'s.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace {

using namespace tandem;

constexpr int vocabulary = 65;
constexpr int tokens = 256;
struct Net : models::Gpt<vocabulary, tokens, 384, 6, 6, Gelu> {};

/// Tokens by chance.
struct Samples {
  explicit Samples(int batch)
      : x(static_cast<std::size_t>(batch) * tokens), y(static_cast<std::size_t>(batch) * tokens) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      Random4 const random = philox(1, RandomUse::user, i, 0);
      x[i] = static_cast<std::int32_t>(random.word[0] % vocabulary);
      y[i] = static_cast<std::int32_t>(random.word[1] % vocabulary);
    }
  }
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
};

class Contender {
 public:
  explicit Contender(char const* its) : name{its} {}
  Contender(Contender const&) = delete;
  Contender& operator=(Contender const&) = delete;
  virtual ~Contender() = default;
  virtual double step() = 0;  ///< the loss
  [[nodiscard]] virtual std::int64_t bytes() const = 0;

  char const* name;
  std::vector<double> seconds;  ///< a step, in each round

  [[nodiscard]] double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

template <class Strategy>
class Training final : public Contender {
 public:
  Training(char const* its, int batch, int threads)
      : Contender{its},
        data_{batch},
        trainer_{{.batch = batch,
                  .optimizer = AdamW{.learning_rate = 1e-3F, .beta2 = 0.99F, .weight_decay = 0.1F},
                  .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}},
                  .threads_per_device = threads}} {}
  double step() override { return trainer_.step(data_.x, data_.y).loss; }
  [[nodiscard]] std::int64_t bytes() const override { return trainer_.memory(0).total(); }

 private:
  Samples data_;
  Trainer<Net, Strategy, Host> trainer_;
};

bool compare(char const* what, double ratio, double bar) {
  std::printf("%s: %.3f, wanted %.2f: %s\n", what, ratio, bar, ratio >= bar ? "met" : "MISSED");
  return ratio >= bar;
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Flags const flags{argc, argv, {"batch", "rounds", "steps"}};
  int const batch = flags.number("batch", 4);
  int const rounds = flags.number("rounds", 9);
  int const steps = flags.number("steps", 4);
  expects(batch >= 2 && rounds >= 1 && steps >= 1,
          "--batch must be 2 or more, --rounds and --steps 1 or more");
  std::vector<std::unique_ptr<Contender>> all;
  all.push_back(std::make_unique<Training<SingleDevice<>>>("SingleDevice, 2 threads", batch, 2));
  all.push_back(std::make_unique<Training<TensorParallel<2>>>("TensorParallel<2>", batch, 1));
  all.push_back(std::make_unique<Training<DataParallel<2>>>("DataParallel<2>", batch, 1));
  all.push_back(std::make_unique<Training<DataParallel<2, ShardedState>>>(
      "DataParallel<2, ShardedState>", batch, 1));
  for (auto const& one : all) {
    std::printf("%-30s loss of the first step %.6f\n", one->name, one->step());
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Contender& one = *all[round % 2 == 0 ? i : all.size() - 1 - i];
      bench::Stopwatch const watch;
      for (int step = 0; step < steps; ++step) {
        one.step();
      }
      one.seconds.push_back(watch.wall_s() / steps);
    }
  }
  std::printf("batch %d, medians of %d rounds of %d steps\n", batch, rounds, steps);
  for (auto const& one : all) {
    std::printf("%-30s %8.1f ms/step %8.1f MiB on device 0\n", one->name, 1e3 * one->median(),
                static_cast<double>(one->bytes()) / (1 << 20));
  }
  bool const tensor = compare("TensorParallel<2> of one device with two threads",
                              all[0]->median() / all[1]->median(), 0.90);
  bool const sharded =
      compare("ShardedState of DataParallel<2>", all[2]->median() / all[3]->median(), 0.97);
  return tensor && sharded ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_two_devices: %s\n", error.what());
  return 2;
}
