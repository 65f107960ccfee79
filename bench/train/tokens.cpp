// SPDX-License-Identifier: Apache-2.0

/// @file
/// Tokens to a loss by tokens a step: a small GPT on the characters of a text, on one device, a
/// step accumulating the gradients of microbatches as so many workers would sum theirs.
///
///   bench_tokens [--text FOLDER] [--target 2.0] [--smallest 4] [--batches 6] [--seeds 1]
///                [--most 4000000] [--rate 0.001]
///
/// 4 layers, 4 heads, 128 channels, windows of 64 characters, AdamW; batches are --smallest windows
/// and so many doublings of it. The learning rate grows with the root of the batch from --rate at
/// 16 windows, and rises over the first 40 steps. The loss is that of 200 windows of the last tenth
/// of the text, tested after each 2^14 tokens or each step; where it passes the target between two
/// tests, tokens are interpolated. Prints a line a run, then the points for `plan --tokens`, the
/// critical-batch law nearest to them, and the noise scale of gradients at the target's parameters,
/// from the mean squares of their norms over each run's last steps, of the smallest batch and the
/// largest.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/measure/epochs/report.hpp>
#include <tandem/plan/epochs/tokens.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

#include "flags.hpp"

namespace td = tandem;

namespace {

constexpr int window = 64;
constexpr int microbatch = 4;
struct Net : td::models::Gpt<96, window, 128, 4, 4, td::Gelu, td::NoBias> {};

struct Run {
  double tokens = 0;   // to the target; 0: not reached
  double squared = 0;  // of the norm of the gradient, over the last steps
};

Run train(td::TokenSpan const& training, td::TokenSpan const& testing, int batch, int seed,
          double rate, double target, double most) {
  td::TextStream const windows{training, window};
  td::TextStream const unseen{testing, window};
  td::Trainer<Net, td::SingleDevice<>, td::Host> trainer{
      {.batch = batch,
       .optimizer = td::AdamW{.learning_rate = static_cast<float>(rate * std::sqrt(batch / 16.0)),
                              .beta2 = 0.99F,
                              .weight_decay = 0.1F},
       .schedule = {td::Constant{}, 40},
       .clip_norm = 1e9,  // only measured
       .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}},
       .seed = static_cast<std::uint64_t>(seed),
       .threads_per_device = 1,
       .rows = td::make_schedule("sequential", 1, batch / microbatch)}};
  int const steps = std::max(1, 16'384 / (batch * window));  // between tests
  std::deque<double> squares;
  double before = trainer.evaluate(td::first(unseen, 200)).loss;
  double tokens = 0;
  for (auto epoch : td::epochs(1'000'000)) {
    trainer.train(td::first(windows, std::int64_t{batch} * steps), epoch,
                  [&](td::StepReport const& report) {
                    squares.push_back(report.gradient_norm * report.gradient_norm);
                    if (squares.size() > 32) {
                      squares.pop_front();
                    }
                  });
    double const more = static_cast<double>(steps) * batch * window;
    double const loss = trainer.evaluate(td::first(unseen, 200)).loss;
    if (loss <= target) {
      double sum = 0;
      for (double const square : squares) {
        sum += square;
      }
      return {tokens + more * (before - target) / (before - loss),
              sum / static_cast<double>(squares.size())};
    }
    tokens += more;
    before = loss;
    if (tokens >= most) {
      break;
    }
  }
  return {};
}

void print(std::vector<td::EpochPoint> const& points, std::vector<td::GradientNorm> const& norms) {
  std::printf("--tokens \"%s\"\n", td::epoch_points_text(points).c_str());
  try {
    td::CriticalBatchLaw const law = td::fit_critical_batch(points);
    std::printf("tokens(B) = %.3g (1 + B / %.3g); standard errors %.2g and %.2g tokens\n",
                law.least_epochs(), law.critical_batch(), law.least_epochs_error(),
                law.critical_batch_error());
    std::printf("noise scale of gradients %.3g tokens\n",
                td::gradient_noise_scale(norms.front(), norms.back()));
  } catch (td::ContractError const& error) {
    std::printf("%s\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  td::bench::Flags const flags{
      argc, argv, {"text", "target", "smallest", "batches", "seeds", "most", "rate"}};
  auto const real = [&](char const* name, char const* otherwise) {
    return std::atof(flags.text(name, otherwise).c_str());
  };
  std::string const text =
      td::read_sword(flags.text("text", "/usr/share/sword/modules/texts/ztext/engKJV2006eb"));
  td::Characters const characters{text};
  auto const tokens = characters.encode(text);
  auto const [training, testing] = td::TokenSpan{tokens, characters.size()}.split(0.9);

  int const seeds = flags.number("seeds", 1);
  std::vector<td::EpochPoint> points;
  std::vector<td::GradientNorm> norms;
  for (int i = 0; i < flags.number("batches", 6); ++i) {
    int const batch = flags.number("smallest", 4) << i;
    std::vector<double> reached;
    double squared = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
      Run const run = train(training, testing, batch, seed, real("rate", "0.001"),
                            real("target", "2.0"), real("most", "4000000"));
      std::printf("batch %5d tokens, seed %d: %.4g tokens, %.4g steps\n", batch * window, seed,
                  run.tokens, run.tokens / (batch * window));
      std::fflush(stdout);
      reached.push_back(run.tokens);
      squared += run.squared / seeds;
    }
    std::sort(reached.begin(), reached.end());
    if (reached.front() > 0) {
      double const size = static_cast<double>(batch) * window;
      points.push_back(
          {.batch = size, .epochs = reached[reached.size() / 2], .weight = double(seeds)});
      norms.push_back({size, squared});
    }
  }
  if (points.size() > 1) {
    print(points, norms);
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_tokens: %s\n", error.what());
  return 1;
}
