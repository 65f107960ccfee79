// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a small BigLstm on Host by its source's recipe (sampled softmax, states that live on,
/// gradients of rows, Adagrad, the LSTMs' norm clipped, an average of their weights), and says how
/// well it does: docs/measurements/sequences.md.
///
///   bench_words [--train train.words] [--valid valid.words] [--seed 1] [--epochs 2] [--tenths 10]
///               [--threads 1]
///
/// The files are those of examples/words.sh, of the first as many tenths as --tenths says. Prints a
/// line of comma-separated values for each quarter of an epoch: its steps, its mean loss in nats a
/// word, of the sampled softmax, the perplexity of the words held out by the softmax of all words,
/// and CPU seconds of training so far; in the end that of the whole held-out text at once, beside
/// what the words' frequencies alone give.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace td = tandem;

namespace {

constexpr int words = 20'000;
constexpr int time = 20;
constexpr int batch = 64;
constexpr int parts = 4;  // of an epoch

struct Net
    : td::models::BigLstm<words, 512, 128, 1, td::Sampled<1024>, td::Stateful, td::RowGradient> {};

// exp of the mean of -log(a word's share of the text), each word counted once more.
double perplexity_of_frequencies(std::span<std::int32_t const> train,
                                 std::span<std::int32_t const> valid) {
  std::vector<double> count(words, 1.0);
  for (std::int32_t const word : train) {
    count[static_cast<std::size_t>(word)] += 1.0;
  }
  double const all = static_cast<double>(train.size()) + words;
  double sum = 0.0;
  for (std::int32_t const word : valid) {
    sum -= std::log(count[static_cast<std::size_t>(word)] / all);
  }
  return std::exp(sum / static_cast<double>(valid.size()));
}

void train(std::vector<std::int32_t> const& text, std::vector<std::int32_t> const& held_out,
           td::bench::Flags const& flags) {
  td::ParallelStreams const streams{td::TokenSpan{text, words}, time, batch};
  td::ParallelStreams const valid{td::TokenSpan{held_out, words}, time, batch};
  td::TrainerOptions options{.batch = batch,
                             .groups = {{.pattern = "0.*", .gradient_scale = batch},
                                        {.pattern = "2.*", .clip_norm = 10.0}},
                             .average = {.decay = 0.999, .pattern = "2.*"},
                             .shuffle = false,
                             .threads_per_device = flags.number("threads", 1)};
  options.seed = static_cast<std::uint64_t>(flags.number("seed", 1));
  td::Trainer<Net, td::SingleDevice<>, td::Host> trainer{
      options,
      td::Adagrad{.learning_rate = 0.2F, .initial_accumulator_value = 1.0F, .epsilon = 0.0F}};
  auto const perplexity = [&](td::ParallelStreams const& of) {  // the loss is a sample's
    return std::exp(trainer.evaluate(of).loss / time);
  };
  std::int64_t const steps = streams.size() / batch;
  std::int64_t const part = std::max<std::int64_t>(1, steps / parts);
  std::printf("epoch,step,sampled_loss,perplexity,cpu_s\n");
  double spent = 0.0;
  for (td::Epoch const epoch : td::epochs(flags.number("epochs", 2))) {
    td::bench::Stopwatch watch;
    double sum = 0.0;
    std::int64_t done = 0;
    trainer.train(streams, epoch, [&](td::StepReport const& report) {
      sum += report.loss / time;
      if (++done % part == 0) {
        spent += watch.cpu_s();
        std::printf("%d,%lld,%.4f,%.1f,%.0f\n", static_cast<int>(epoch.index) + 1,
                    static_cast<long long>(done), sum / static_cast<double>(part),
                    perplexity(valid), spent);
        std::fflush(stdout);
        sum = 0.0;
        watch = {};
      }
    });
  }
  td::ParallelStreams const at_once{td::TokenSpan{held_out, words}, time, 1};
  std::printf(
      "# held out, the text at once: perplexity %.2f; by the words' frequencies alone %.1f\n",
      perplexity(at_once), perplexity_of_frequencies(text, held_out));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{
        argc, argv, {"train", "valid", "seed", "epochs", "tenths", "threads"}};
    std::string const text = td::read_text(flags.text("train", "train.words"));
    td::Words const vocabulary{text, words};
    std::vector<std::int32_t> tokens = vocabulary.encode(text);
    std::size_t const tenths = static_cast<std::size_t>(flags.number("tenths", 10));
    tokens.resize(tokens.size() * std::clamp<std::size_t>(tenths, 1, 10) / 10);
    auto const held_out = vocabulary.encode(td::read_text(flags.text("valid", "valid.words")));
    std::fprintf(stderr, "%zu words to train on, %zu held out, of which %.1f %% are unknown\n",
                 tokens.size(), held_out.size(),
                 100.0 * static_cast<double>(std::ranges::count(held_out, td::Words::unknown)) /
                     static_cast<double>(held_out.size()));
    train(tokens, held_out, flags);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_words: %s\n", error.what());
    return 1;
  }
  return 0;
}
