// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a small GNMT on Host to translate verses, and says how well it does after each epoch:
/// docs/translation.md, beside peers/pytorch_translation.py.
///
///   bench_translation [--source bible.en] [--target bible.es] [--write FOLDER]
///                     [--seed 1] [--epochs 6] [--beam 5] [--threads 1]
///
/// The files are those of examples/translation.sh. With --write it only writes the pairs as tokens,
/// the references and the model of pieces into a folder that there is, for the peer. Else it
/// prints a line of comma-separated values an epoch: epoch, loss in training and on the pairs held
/// out (nats a token, targets smoothed), greedy BLEU on these, CPU seconds of training so far; in
/// the end the BLEU of a beam search, and some translations as they came.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

#include "flags.hpp"
#include "rounds.hpp"

namespace td = tandem;

namespace {

constexpr int longest = 32;
constexpr int pieces = 4000;
constexpr int batch = 64;

struct Net : td::models::Gnmt<pieces, 256, 2, longest, td::Percent<20>> {};

void write_tokens(std::string const& file, td::Pairs const& pairs) {
  std::ofstream out{file};
  std::vector<std::int32_t> x(longest);
  std::vector<std::int32_t> second(longest);
  std::vector<std::int32_t> y(longest);
  auto const line = [&](std::vector<std::int32_t> const& tokens, int count, char end) {
    for (int i = 1; i < count; ++i) {  // begin is left out
      out << (i > 1 ? " " : "") << tokens[static_cast<std::size_t>(i)];
    }
    out << end;
  };
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    int const length = pairs.length(i);
    int const second_length = pairs.second_length(i);
    pairs.read(i, {x.data(), static_cast<std::size_t>(length)},
               {second.data(), static_cast<std::size_t>(second_length)},
               {y.data(), static_cast<std::size_t>(second_length)});
    line(x, length - 1, '\t');
    line(second, second_length, '\n');
  }
  out.flush();
  td::expects(bool{out}, "--write: the folder cannot be written");
}

void write(std::string const& folder, td::SentencePiece const& tokenizer, td::Pairs const& train,
           td::Pairs const& held_out) {
  write_tokens(folder + "/train.tokens", train);
  write_tokens(folder + "/valid.tokens", held_out);
  tokenizer.save(folder + "/pieces.model");
  std::ofstream out{folder + "/valid.target"};
  for (std::int64_t i = 0; i < held_out.size(); ++i) {
    out << held_out.target(i) << '\n';
  }
}

// Of a loss that is a mean over sentences, in nats a token.
double of_token(double loss, td::Pairs const& pairs) {
  double tokens = 0;
  for (std::int64_t i = 0; i < pairs.size(); ++i) {
    tokens += pairs.second_length(i);
  }
  return loss * static_cast<double>(pairs.size()) / tokens;
}

void print(td::Translations const& found, td::Pairs const& pairs, int count) {
  for (std::int64_t i = 0; i < std::min<std::int64_t>(count, pairs.size()); ++i) {
    std::printf("# %s\n#   %s\n#   reference: %s\n", std::string{pairs.source(i)}.c_str(),
                found.text[static_cast<std::size_t>(i)].c_str(),
                std::string{pairs.target(i)}.c_str());
  }
}

void train(td::Pairs const& pairs, td::Pairs const& held_out, td::bench::Flags const& flags) {
  int const epochs = flags.number("epochs", 6);
  auto const steps = epochs * ((pairs.size() + batch - 1) / batch);
  td::TrainerOptions options{
      .batch = batch,
      .optimizer = td::Adam{.learning_rate = 2e-3F},
      .schedule = {td::Halvings{.begin = steps * 2 / 3 - 200, .every = steps / 12, .most = 4},
                   td::ExponentialWarmUp{.steps = 200, .start = 0.01}},
      .clip_norm = 5.0,
      .threads_per_device = flags.number("threads", 1)};
  options.seed = static_cast<std::uint64_t>(flags.number("seed", 1));
  td::Trainer<Net, td::SingleDevice<>, td::Host> trainer{options};
  std::printf("epoch,loss,held_out_loss,bleu,cpu_s\n");
  double spent = 0.0;
  for (td::Epoch const epoch : td::epochs(epochs)) {
    td::bench::Stopwatch const watch;
    auto const trained = trainer.train(pairs, epoch, td::Progress::none());
    spent += watch.cpu_s();
    auto const found = td::translate(trainer, held_out, {.width = 1, .tokens = longest});
    std::printf("%d,%.4f,%.4f,%.2f,%.0f\n", static_cast<int>(epoch.index) + 1,
                of_token(trained.loss, pairs),
                of_token(trainer.evaluate(td::in_buckets(held_out)).loss, held_out),
                td::bleu(found, held_out).score, spent);
    std::fflush(stdout);
  }
  if (int const width = flags.number("beam", 5); width > 0) {
    auto const found =
        td::translate(trainer, held_out, {.width = width, .length = 0.6, .tokens = longest});
    std::printf("# beam of %d: BLEU %.2f\n", width, td::bleu(found, held_out).score);
    print(found, held_out, 8);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    td::bench::Flags const flags{
        argc, argv, {"source", "target", "write", "seed", "epochs", "beam", "threads"}};
    std::string const source = flags.text("source", "bible.en");
    std::string const target = flags.text("target", "bible.es");
    auto const tokenizer = td::SentencePiece::train(
        td::read_text(source) + "\n" + td::read_text(target), {.vocabulary = pieces});
    td::Pairs const bible{
        source, target, tokenizer, {.longest = longest, .begin = 1, .end = 2, .leave_out = true}};
    auto const [pairs, held_out] = bible.hold_out(40);
    std::fprintf(stderr, "%lld pairs to train on, %lld held out\n",
                 static_cast<long long>(pairs.size()), static_cast<long long>(held_out.size()));
    std::string const folder = flags.text("write", "");
    folder.empty() ? train(pairs, held_out, flags) : write(folder, tokenizer, pairs, held_out);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "bench_translation: %s\n", error.what());
    return 1;
  }
  return 0;
}
