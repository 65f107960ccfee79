// SPDX-License-Identifier: Apache-2.0
// Trains a small translator by a strategy of four ranks, and prints a hash of what it has: its
// evaluation, and what a beam search finds; or a network whose state goes on from step to step,
// over a checkpoint. run.py starts it as one process, two and four.
//   translate data|hybrid|pipeline|asynchronous
//   translate stateful PATH

#include <tandem/mpi.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <translated_sentences.hpp>

namespace td = tandem;

namespace {

using td::test::translated::Data;
using td::test::translated::Net;

std::uint64_t hash = 0;

void add(std::uint64_t bits) { hash = (hash ^ bits) * 1099511628211U; }
void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }

template <class Strategy>
int train(td::World const& world) {
  td::Trainer<Net, Strategy, td::OverMpi<td::Host>> trainer{
      {.batch = 20,
       .optimizer = td::Adam{.learning_rate = 0.01F},
       .seed = 3,
       .threads_per_device = 1,
       .timeout = std::chrono::seconds{30},
       .world = world}};
  Data const data;
  for (auto epoch : td::epochs(5)) {
    trainer.train(data, epoch);
  }
  add(trainer.evaluate(data).loss);
  for (td::Beam const& beam :
       {td::Beam{.width = 1}, td::Beam{.width = 3, .coverage = 0.2}, td::Beam{.width = 4}}) {
    td::Translations const found = td::translate(trainer, data, beam);
    for (std::size_t i = 0; i < found.size(); ++i) {
      add(found.score[i]);
      for (std::int32_t const token : found.tokens[i]) {
        add(static_cast<std::uint64_t>(token));
      }
    }
  }
  std::printf("process %d of %d: found %016llx\n", world.process, world.processes,
              static_cast<unsigned long long>(hash));
  return 0;
}

struct Kept
    : td::Network<td::Tokens<6, 7>, td::Sequential<td::Embedding<7, 8>, td::Lstm<8, td::Stateful>,
                                                   td::Vocabulary<7>>> {};

/// What it has after a checkpoint is what it has after loading it: states, too.
int carry_on(td::World const& world, std::string const& path) {
  td::Trainer<
      Kept,
      td::Hybrid<td::DataParallel<2>, td::Pipeline<td::OneFOneB, 2, td::Split<2>, td::Split<1>>>,
      td::OverMpi<td::Host>>
      trainer{{.batch = 8,
               .threads_per_device = 1,
               .timeout = std::chrono::seconds{30},
               .world = world}};
  std::vector<std::int32_t> tokens(48);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(i * i % 7);
  }
  add(trainer.step(tokens, tokens).loss);
  trainer.save(path);
  double const loss = trainer.step(tokens, tokens).loss;
  trainer.load(path);
  if (trainer.step(tokens, tokens).loss != loss) {
    std::fputs("translate: what was saved goes on in another way\n", stderr);
    return 1;
  }
  add(loss);
  std::printf("process %d of %d: found %016llx\n", world.process, world.processes,
              static_cast<unsigned long long>(hash));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  std::string const strategy = argc > 1 ? argv[1] : "";
  td::World const world = td::mpi_world({.start_timeout = std::chrono::seconds{20}});
  if (strategy == "data") {
    return train<td::DataParallel<4>>(world);
  }
  if (strategy == "hybrid") {
    return train<
        td::Hybrid<td::DataParallel<2>, td::Pipeline<td::OneFOneB, 2, td::Split<4>, td::Split<6>>>>(
        world);
  }
  if (strategy == "pipeline") {
    return train<
        td::Pipeline<td::OneFOneB, 2, td::Split<3>, td::Split<3>, td::Split<2>, td::Split<2>>>(
        world);
  }
  if (strategy == "asynchronous") {
    return train<td::Pipeline<td::PipeDream, 1, td::Split<5>, td::Split<5>>>(world);
  }
  if (strategy == "stateful" && argc > 2) {
    return carry_on(world, argv[2]);
  }
  std::fputs("usage: translate data|hybrid|pipeline|asynchronous, or stateful PATH\n", stderr);
  return 2;
} catch (std::exception const& error) {
  std::fprintf(stderr, "translate: %s\n", error.what());
  return 1;
}
