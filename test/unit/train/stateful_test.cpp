// SPDX-License-Identifier: Apache-2.0
// Stateful layers in a trainer: text in pieces is text in one, under every synchronous strategy,
// over checkpoints and in evaluations.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/data/text/text_stream.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace stateful_test {

constexpr int words = 11;
constexpr int batch = 8;

template <int Time, class... Options>
struct Net : Network<Tokens<Time, words>,
                     Sequential<Embedding<words, 5>, Lstm<6, Projection<4>, Options...>,
                                Gru<5, Options...>, Vocabulary<words>>> {};
using Chunks = Net<4, Stateful>;

using Double = BasicHost<Portable, Fp64>;
using R = Reproducible<4>;
using One = SingleDevice<Microbatches<4>, R>;
using Piped = Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<2>, Split<2>>>;

std::vector<std::int32_t> text(int tokens) {
  std::vector<std::int32_t> list;
  for (int i = 0; i < tokens; ++i) {
    list.push_back(static_cast<std::int32_t>((i * i + i / 3) % words));
  }
  return list;
}

TrainerOptions options(int samples = batch, float rate = 0.5F) {
  return {.batch = samples,
          .optimizer = Sgd{.learning_rate = rate, .momentum = 0.9F},
          .seed = 3,
          .shuffle = false,
          .threads_per_device = 1};
}

/// Step number @p step of @p samples streams.
template <class T>
StepResult take_step(T& trainer, std::vector<std::int32_t> const& tokens, int step,
                     int samples = batch) {
  ParallelStreams const data{TokenSpan{tokens, words}, 4, samples};
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
  for (int b = 0; b < samples; ++b) {
    std::vector<std::int32_t> in(4);
    std::vector<std::int32_t> out(4);
    data.read(step * samples + b, in, out);
    x.insert(x.end(), in.begin(), in.end());
    y.insert(y.end(), out.begin(), out.end());
  }
  return trainer.step(x, y);
}

TEST_CASE("a text in steps of four tokens has the loss of the text at once") {
  auto const tokens = text(49);
  Trainer<Net<48>, SingleDevice<>, Double> whole{options(1)};
  Trainer<Chunks, SingleDevice<>, Double> chunks{options(2, 0.0F)};
  TextStream const at_once{TokenSpan{tokens, words}, 48};
  double const loss = whole.evaluate(at_once).loss;
  ParallelStreams const stream{TokenSpan{tokens, words}, 4, 1};
  CHECK(std::fabs(chunks.evaluate(stream).loss - loss) <= 1e-14);
  CHECK(std::fabs(chunks.evaluate(stream).loss - loss) <= 1e-14);  // from 0 again
  double trained = 0.0;
  for (int step = 0; step < 12; ++step) {
    trained += take_step(chunks, tokens, step, 1).loss / 12;
    CHECK(std::fabs(chunks.evaluate(stream).loss - loss) <= 1e-14);  // disturbs no training
  }
  CHECK(std::fabs(trained - loss) <= 1e-14);
  CHECK(chunks.generate(std::vector<std::int32_t>{1, 2, 3}, {.tokens = 3, .temperature = 0.0}) ==
        whole.generate(std::vector<std::int32_t>{1, 2, 3}, {.tokens = 3, .temperature = 0.0}));
  CHECK(std::fabs(chunks.evaluate(stream).loss - loss) <= 1e-14);
  double const begun = take_step(chunks, tokens, 0, 1).loss;
  chunks.reset_state();
  CHECK(take_step(chunks, tokens, 0, 1).loss != begun);
}

/// Losses and norms of steps, and at the end all parameters.
template <class S, class Backend = Host>
struct Run {
  Trainer<Chunks, S, Backend> trainer{options()};
  std::vector<std::int32_t> tokens = text(8 * 24 + 1);
  std::vector<double> losses{};

  explicit Run(int end = 6) { go_on(0, end); }
  void go_on(int begin, int end) {
    test::Watchdog const watchdog{"steps of a stateful network"};
    for (int step = begin; step < end; ++step) {
      losses.push_back(take_step(trainer, tokens, step).loss);
    }
  }
};

template <class A, class B, class Backend>
void check_same(Run<A, Backend> const& a, Run<B, Backend> const& b) {
  CHECK(a.losses == b.losses);
  CHECK(test::first_difference(a.trainer.parameters(), b.trainer.parameters()) == "");
}

TEST_CASE("every synchronous strategy carries the bits of one device, and on over a checkpoint") {
  Run<One> const one;
  Run<Piped> piped{3};
  Run<DataParallel<4, R>> replicas{3};
  test::TemporaryFolder const folder;
  piped.trainer.save(folder.file("piped"));
  replicas.trainer.save(folder.file("replicas"));
  auto const file = Safetensors::read(folder.file("piped"));
  auto const same = Safetensors::read(folder.file("replicas"));
  for (auto const& [name, numbers] :
       {std::pair{"state.1.h", 4}, {"state.1.c", 6}, {"state.2.h", 5}}) {
    auto const* const tensor = file.find(name);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->shape == std::vector<std::int64_t>{batch, numbers});
    REQUIRE(same.find(name) != nullptr);
    CHECK(test::same_bits(same.find(name)->data, tensor->data));
  }
  CHECK(file.find("state.2.c") == nullptr);
  take_step(piped.trainer, piped.tokens, 5);  // other states than the file's
  piped.trainer.load(folder.file("replicas"));
  piped.go_on(3, 6);
  check_same(piped, one);
  take_step(replicas.trainer, replicas.tokens, 5);
  replicas.trainer.load(folder.file("piped"));
  replicas.go_on(3, 6);
  check_same(replicas, one);
  CHECK(piped.trainer.evaluate(ParallelStreams{TokenSpan{one.tokens, words}, 4, batch}).loss ==
        replicas.trainer.evaluate(ParallelStreams{TokenSpan{one.tokens, words}, 4, batch}).loss);
}

TEST_CASE("a pass that is computed again begins where it has begun") {
  check_same(Run<Pipeline<GPipe, 4, Split<2>, Split<2>, R, Checkpoint<Boundaries>>>{}, Run<One>{});
}

TEST_CASE("two copies of the model carry the states of their samples") {
  check_same(Run<Pipeline<Chimera, 4, Split<2>, Split<2>, R>>{}, Run<One>{});
}

TEST_CASE("what cannot go on is a sentence, and changes nothing") {
  using test::message;
  Run<SingleDevice<>> run{2};
  auto& trainer = run.trainer;
  CHECK(message<ContractError>([&] {
          take_step(trainer, run.tokens, 0, 3);
        }).find("must have as many samples as the step before") != std::string::npos);
  Run<SingleDevice<>> const other{3};
  auto const weights = trainer.parameters()[0];
  std::vector<float> values(weights.value.begin(), weights.value.end());
  float const weight = std::exchange(values[0], std::nanf(""));
  trainer.set_parameter(weights.name, values);
  message<NonFiniteLoss>([&] { take_step(trainer, run.tokens, 2); });
  values[0] = weight;
  trainer.set_parameter(weights.name, values);
  run.go_on(2, 3);
  check_same(run, other);
  auto shuffled = options();
  shuffled.shuffle = true;
  Trainer<Chunks, SingleDevice<>, Host> shuffles{shuffled};
  auto const few = text(33);
  ParallelStreams const four{TokenSpan{few, words}, 4, 4};
  ParallelStreams const long_text{TokenSpan{run.tokens, words}, 4, batch};
  TextStream const at_random{TokenSpan{few, words}, 4};
  ParallelStreams const eight{TokenSpan{few, words}, 4, 8};
  CHECK(message<ContractError>([&] { shuffles.train(eight, Epoch{}); }).find(".shuffle = false") !=
        std::string::npos);
  CHECK(message<ContractError>([&] {
          trainer.train(four, Epoch{});
        }).find(".batch = data.streams()") != std::string::npos);
  CHECK(message<ContractError>([&] { trainer.evaluate(first(long_text, 15)); }) != "");
  Trainer<Chunks, SingleDevice<>, Host> single{options(1)};
  CHECK(message<ContractError>([&] { single.train(at_random, Epoch{}); }).find("at random") !=
        std::string::npos);
  trainer.evaluate(at_random);
  trainer.reset_state();
  take_step(trainer, run.tokens, 0, 3);
}

TEST_CASE("an epoch begins with states of 0") {
  auto const tokens = text(8 * 24 + 1);
  ParallelStreams const data{TokenSpan{tokens, words}, 4, batch};
  Trainer<Chunks, SingleDevice<>, Host> still{options(batch, 0.0F)};
  double const first = still.train(data, Epoch{0, 2}).loss;
  CHECK(still.train(data, Epoch{1, 2}).loss == first);
}

TEST_CASE("an epoch that was interrupted goes on with the states of its file") {
  auto const tokens = text(8 * 24 + 1);
  ParallelStreams const data{TokenSpan{tokens, words}, 4, batch};
  Run<SingleDevice<>> whole{0};
  whole.trainer.train(data, Epoch{0, 2});
  whole.trainer.train(data, Epoch{1, 2});
  test::TemporaryFolder const folder;
  Run<SingleDevice<>> half{0};
  int steps = 0;
  half.trainer.train(data, Epoch{0, 2}, [&](StepReport const&) {
    half.trainer.evaluate(data);
    half.trainer.save(folder.file("half"));
    return ++steps == 4 ? AfterStep::stop : AfterStep::go_on;
  });
  Run<SingleDevice<>> resumed{2};
  resumed.trainer.load(folder.file("half"));
  resumed.trainer.train(data, Epoch{0, 2});
  resumed.trainer.train(data, Epoch{1, 2});
  CHECK(test::first_difference(resumed.trainer.parameters(), whole.trainer.parameters()) == "");
}

#if defined(TANDEM_ONEDNN)
TEST_CASE("in bf16 likewise, and over a checkpoint") {
  if (!onednn::detail::has_avx512()) {
    return;
  }
  using Backend = BasicHost<OneDnn, Bf16>;
  Run<One, Backend> const one;
  Run<DataParallel<2, Microbatches<2>, R>, Backend> two{3};
  test::TemporaryFolder const folder;
  two.trainer.save(folder.file("two"));
  take_step(two.trainer, two.tokens, 5);
  two.trainer.load(folder.file("two"));
  two.go_on(3, 6);
  check_same(two, one);
}
#endif

TEST_CASE("averages and clips of the recurrent layers alone") {
  auto all = options();
  all.average = {.decay = 0.75, .pattern = "1.*"};
  all.groups = {{.pattern = "1.*", .clip_norm = 1e-3}};
  Trainer<Chunks, SingleDevice<>, Host> trainer{all};
  auto const tokens = text(8 * 24 + 1);
  for (int step = 0; step < 3; ++step) {
    take_step(trainer, tokens, step);
  }
  for (auto const& p : trainer.parameters()) {
    CHECK(p.average.empty() == (p.name.substr(0, 2) != "1."));
  }
  ParallelStreams const data{TokenSpan{tokens, words}, 4, batch};
  CHECK(trainer.evaluate(data).loss != trainer.evaluate(data, WhichModel::first).loss);
}

}  // namespace stateful_test
}  // namespace tandem
