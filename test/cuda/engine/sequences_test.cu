// SPDX-License-Identifier: Apache-2.0

/// @file
/// Transformers and recurrent networks train on a GPU as they do on the host, steps of several
/// lengths recorded and replayed.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/models/gpt.hpp>

#include <support/temporary_folder.hpp>
#if defined(TANDEM_CUDA_EMULATED)
#include <emulator/control.hpp>
#endif
#include <support/watchdog.hpp>
#include <token_network.hpp>

#include "support.hpp"

namespace sequences_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

// Dropout, tied words, biases.
struct SmallGpt : models::Gpt<words, longest, 8, 2, 2, Percent<25>> {};

// What Llama has: rotary positions, grouped keys, RMS norms, SwiGLU; no weight is shared.
struct Attend : Sequential<RmsNorm<>, Linear<16, NoBias>, RotaryPositions<4, KeyHeads<2>>,
                           Attention<4, Causal, KeyHeads<2>>, Linear<8, NoBias>> {};
struct Think : Sequential<RmsNorm<>, Linear<24, NoBias>, SwiGlu, Linear<8, NoBias>> {};
struct SmallLlama
    : Network<Tokens<longest, words>,
              Sequential<Embedding<words, 8>, Residual<Attend>, Residual<Think>, RmsNorm<>,
                         Vocabulary<words, Smoothing<Percent<10>>, Chunked<8>>>> {};

// Every kind of state, and additive attention of the rows of one to those of the other.
struct Query;
struct Memory;
struct Recurrent
    : Network<
          Tokens<longest, words>,
          Sequential<Embedding<words, 8>, Lstm<6, OneBias, Projection<4>, Bidirectional>,
                     Let<Memory>, Gru<8>, Let<Query>, Join<Bahdanau<5>, Use<Query>, Use<Memory>>,
                     Concat<Use<Query>, Sequential<>>, Lstm<8, ForgetBias<1>>, Vocabulary<words>>> {
};

// What can be written with.
struct Writer : Network<Tokens<longest, words>,
                        Sequential<Embedding<words, 8>, Residual<Lstm<12, Projection<8>>>,
                                   Residual<Gru<8>>, Vocabulary<words>>> {};

TrainerOptions options() {
  return {.batch = 10,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .clip_norm = 0.2,
          .seed = 3,
          .threads_per_device = 1};
}

template <class S, class Net, class Precision>
using OnDevice =
    Trainer<Net, S, BasicCuda<Portable, Precision>, DefaultLoss<Net>, Accuracy, VirtualTransport>;
template <class S, class Net>
using AsOnHost = Trainer<Net, S, BasicHost<Portable, Fp64>>;

/// Sizes and times come again, so that recorded steps are replayed; some samples are short.
template <class T>
StepResult step_of(T& trainer, int step) {
  TokenBatch const batch = token_batch(10 - step % 2, longest - step / 2 % 2, step, step % 3 == 0);
  return trainer.step(batch.x, batch.targets, {.time = batch.time, .lengths = batch.lengths});
}

template <class S, class One, class Net>
void check_double(int steps = 8) {
  Watchdog const watchdog{"steps of sequences in double"};
  AsOnHost<One, Net> host{options()};
  OnDevice<S, Net, Fp64> gpu{options()};
  for (int s = 0; s < steps; ++s) {
    StepResult const a = step_of(host, s);
    StepResult const b = step_of(gpu, s);
    CHECK(std::fabs(a.loss - b.loss) <= 1e-11 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-10 * a.gradient_norm);
    CHECK(a.metric == b.metric);
    CHECK(a.weight == b.weight);
  }
  Difference const off = difference(gpu.parameters(), host.parameters(), Part::value);
  INFO(off.name << " is off by " << off.error);
  CHECK(off.error <= 1e-10);
}

TEST_CASE("a GPT trains on one GPU as on the host, in double") {
  check_double<SingleDevice<>, SingleDevice<>, SmallGpt>();
  check_double<SingleDevice<Microbatches<3>>, SingleDevice<Microbatches<3>>, SmallGpt>();
}

TEST_CASE("rotary positions, grouped keys, RMS norms, SwiGLU, a vocabulary in chunks: likewise") {
  check_double<SingleDevice<>, SingleDevice<>, SmallLlama>();
}

TEST_CASE("Lstm, Gru and Bahdanau train on one GPU as on the host, in double") {
  check_double<SingleDevice<Microbatches<3>>, SingleDevice<Microbatches<3>>, Recurrent>();
}

TEST_CASE("a GPT trains on several ranks as on one, its words on both ends of a pipeline") {
  check_double<DataParallel<2>, SingleDevice<Microbatches<2>>, SmallGpt>(3);
  check_double<Pipeline<OneFOneB, 2, Split<3>, Split<3>>, SingleDevice<Microbatches<2>>, SmallGpt>(
      3);
}

TEST_CASE("a GPT's first gradients in fp32 and bf16 are near those in double") {
  AsOnHost<SingleDevice<>, SmallGpt> host{options()};
  OnDevice<SingleDevice<>, SmallGpt, Fp32> single{options()};
  OnDevice<SingleDevice<>, SmallGpt, Bf16> half{options()};
  StepResult const a = step_of(host, 0);
  StepResult const b = step_of(single, 0);
  StepResult const c = step_of(half, 0);
  CHECK(std::fabs(a.loss - b.loss) <= 1e-5 * a.loss);
  CHECK(std::fabs(a.loss - c.loss) <= 0.02 * a.loss);
  CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 1e-4 * a.gradient_norm);
  CHECK(std::fabs(a.gradient_norm - c.gradient_norm) <= 0.1 * a.gradient_norm);
}

TrainerOptions walked_options() {
  TrainerOptions walked = options();
  walked.record = false;
  return walked;
}

template <class T>
void check_recorded(T& one, T& walked) {
  for (int s = 0; s < 8; ++s) {
    StepResult const a = step_of(one, s);
    StepResult const b = step_of(walked, s);
    CHECK(a.loss == b.loss);
    CHECK(a.gradient_norm == b.gradient_norm);
  }
  CHECK(first_difference(one.parameters(), walked.parameters()) == "");
}

template <class S, class Net, class Precision>
void check_recorded() {
  OnDevice<S, Net, Precision> one{options()};
  OnDevice<S, Net, Precision> walked{walked_options()};
  check_recorded(one, walked);
}

TEST_CASE("recorded steps of recurrent layers have the bits of walked ones, in bf16 too") {
  check_recorded<SingleDevice<Microbatches<3>>, Recurrent, Fp64>();
  check_recorded<SingleDevice<>, Writer, Bf16>();
}

TEST_CASE("recorded steps of a GPT have the bits of walked ones") {
  OnDevice<SingleDevice<>, SmallGpt, Fp32> one{options()};
  OnDevice<SingleDevice<>, SmallGpt, Fp32> walked{walked_options()};
  check_recorded(one, walked);

  DeviceMemory const most = device_memory<SmallGpt, SingleDevice<>, Sgd, Fp32>(options().batch, 0);
  MemoryReport const has = one.memory(0);  // of a rewritten graph
  CHECK(has.kept <= most.kept);
  CHECK(has.transient <= most.passing + most.activation_gradients);
}

/// One sequence, of whose last row one target is asked for.
struct Last {
  using Input = std::int32_t;
  using Target = std::int32_t;
  std::vector<std::int32_t> const* text;
  std::int32_t next;
  [[nodiscard]] static std::int64_t size() { return 1; }
  [[nodiscard]] static Shape shape() { return tokens_shape(longest); }
  [[nodiscard]] static int targets() { return longest; }
  [[nodiscard]] int length(std::int64_t) const { return static_cast<int>(text->size()); }
  void read(std::int64_t, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    std::copy(text->begin(), text->end(), x.begin());
    std::fill(y.begin(), y.end(), -1);
    y.back() = next;
  }
};

/// The likeliest token behind @p text, by the losses of all that could come.
template <class T>
std::int32_t likeliest(T& trainer, std::vector<std::int32_t> const& text) {
  std::vector<double> loss;
  for (std::int32_t token = 0; token < words; ++token) {
    loss.push_back(trainer.evaluate(Last{&text, token}).loss);
  }
  return static_cast<std::int32_t>(std::min_element(loss.begin(), loss.end()) - loss.begin());
}

/// A network trained on Host, its weights so large that a row depends on all rows before it, in a
/// file.
template <class Net, class F>
void with_trained(F const& f) {
  Watchdog const watchdog{"generate() on a GPU"};
  AsOnHost<SingleDevice<>, Net> host{options()};
  for (int s = 0; s < 4; ++s) {
    step_of(host, s);
  }
  for (auto const& p : host.parameters()) {
    std::vector<double> values(p.value.begin(), p.value.end());
    for (double& value : values) {
      value *= 4;
    }
    if (p.owner == p.index) {
      host.set_parameter(p.name, values);
    }
  }
  TemporaryFolder const folder;
  host.save(folder.file("trained"));
  f(host, folder.file("trained"));
}

/// The text is longer than the window, so that its later half is read again.
template <class S, class Net, class T>
void check_written(T& host, std::string const& file) {
  OnDevice<S, Net, Fp64> gpu{options()};
  gpu.load(file);
  std::vector<std::int32_t> const prompt{1, 4, 0};
  for (GenerateOptions const& how :
       {GenerateOptions{.tokens = 14, .temperature = 0.0}, GenerateOptions{.tokens = 5, .top_k = 1},
        GenerateOptions{.tokens = 14, .top_k = 5, .seed = 3}}) {
    CHECK(gpu.generate(prompt, how) == host.generate(prompt, how));
  }
  std::vector<std::int32_t> text = prompt;  // as the whole text at every token
  for (std::int32_t const token : gpu.generate(prompt, {.tokens = 4, .temperature = 0.0})) {
    CHECK(token == likeliest(gpu, text));
    text.push_back(token);
  }
  CHECK(text[3] != text[4]);
}

TEST_CASE("a GPU writes what Host writes from the same checkpoint, keys and values carried") {
  with_trained<SmallGpt>([](auto& host, std::string const& file) {
    check_written<SingleDevice<>, SmallGpt>(host, file);
    check_written<DataParallel<2>, SmallGpt>(host, file);
    check_written<Pipeline<OneFOneB, 2, Split<3>, Split<3>>, SmallGpt>(host, file);
  });
}

TEST_CASE("likewise with rotary positions, grouped keys and a vocabulary in chunks") {
  with_trained<SmallLlama>([](auto& host, std::string const& file) {
    check_written<SingleDevice<>, SmallLlama>(host, file);
  });
}

TEST_CASE("likewise with recurrent layers, whose states are carried") {
  with_trained<Writer>([](auto& host, std::string const& file) {
    check_written<SingleDevice<>, Writer>(host, file);
  });
}

TEST_CASE("in bf16 a GPU writes as many tokens as it is asked for, the same each time") {
  OnDevice<SingleDevice<>, SmallGpt, Bf16> half{options()};
  std::vector<std::int32_t> const prompt{1, 4};
  auto const written = half.generate(prompt, {.tokens = 9, .seed = 2});
  CHECK(written.size() == 9);
  CHECK(written == half.generate(prompt, {.tokens = 9, .seed = 2}));
}

TEST_CASE("steps recorded before generate() are replayed after it") {
  OnDevice<SingleDevice<>, SmallGpt, Fp32> one{options()};
  OnDevice<SingleDevice<>, SmallGpt, Fp32> two{options()};
  for (int s = 0; s < 6; ++s) {
    CHECK(step_of(one, s % 2).loss == step_of(two, s % 2).loss);
    if (s == 3) {
      std::vector<std::int32_t> const prompt{1};
      CHECK(two.generate(prompt, {.tokens = 12}).size() == 12);
    }
  }
}

/// One device computes a sum and the norm behind it at once, two stages apart, where a message is
/// sent between them; in one piece and in runs that are computed again.
template <class S>
std::vector<double> bits_of() {
  Watchdog const watchdog{"reproducible steps of sequences"};
  OnDevice<S, SmallGpt, Bf16> gpu{options()};
  std::vector<double> bits;
  for (int s = 0; s < 3; ++s) {
    StepResult const result = step_of(gpu, s);
    bits.insert(bits.end(), {result.loss, result.gradient_norm});
  }
  for (auto const& parameter : gpu.parameters()) {
    bits.insert(bits.end(), parameter.value.begin(), parameter.value.end());
  }
  return bits;
}

TEST_CASE("a GPT's bits in reproducible mode are those of one GPU, in bf16") {
  std::vector<double> const one = bits_of<SingleDevice<Microbatches<2>, Reproducible<2>>>();
  CHECK(bits_of<DataParallel<2, Reproducible<2>>>() == one);
  CHECK(bits_of<Pipeline<GPipe, 2, Split<3>, Split<3>, Checkpoint<Every<1>>, Reproducible<2>>>() ==
        one);
}

#if defined(TANDEM_CUDA_EMULATED)

struct DeeperGpt : models::Gpt<words, longest, 8, 2, 3, Percent<25>> {};

/// Of ours, in a step of whole samples; products of cuBLASLt are not counted.
template <class Net, class Precision>
std::int64_t kernels_of_step() {
  OnDevice<SingleDevice<>, Net, Precision> gpu{options()};
  std::uint64_t const before = cuda_emulator::kernels_run();
  static_cast<void>(step_of(gpu, 1));
  return static_cast<std::int64_t>(cuda_emulator::kernels_run() - before);
}
template <class Precision>
std::int64_t kernels_of_block() {
  return kernels_of_step<DeeperGpt, Precision>() - kernels_of_step<SmallGpt, Precision>();
}

// A block's four products have a bias each, and a GELU stands between two of them: a kernel forward
// and one back for each, where products have no epilogues. Dropout, sum and norm are one forward;
// back, the norm adds the gradient that comes past it.
TEST_CASE("a block of a GPT: kernels beside products, without their epilogues and with them") {
  CHECK(kernels_of_block<Fp64>() == 20);
  CHECK(kernels_of_block<Bf16>() == 20 - 2 * (4 + 1));
}

#endif

#if defined(TANDEM_CUDNN)

// Heads of 8, which cuDNN takes.
struct Looks : Sequential<LayerNorm<>, Linear<48>, Attention<2, Causal>, Linear<16>> {};
struct Reader : Network<Tokens<longest, words>, Sequential<Embedding<words, 16>, Residual<Looks>,
                                                           Residual<Looks>, Vocabulary<words>>> {};

TEST_CASE("attention by cuDNN in a network: near double, recorded steps have walked ones' bits") {
  using ByCuDnn = Trainer<Reader, SingleDevice<Microbatches<3>>, BasicCuda<CuDnn, Bf16>,
                          DefaultLoss<Reader>, Accuracy, VirtualTransport>;
  AsOnHost<SingleDevice<Microbatches<3>>, Reader> host{options()};
  TrainerOptions walking = options();
  walking.record = false;
  ByCuDnn recorded{options()};
  ByCuDnn walked{walking};
  for (int s = 0; s < 8; ++s) {
    StepResult const a = step_of(host, s);
    StepResult const b = step_of(recorded, s);
    StepResult const c = step_of(walked, s);
    CHECK(std::fabs(a.loss - b.loss) <= 0.02 * a.loss);
    CHECK(std::fabs(a.gradient_norm - b.gradient_norm) <= 0.1 * a.gradient_norm);
    CHECK(b.loss == c.loss);
    CHECK(b.gradient_norm == c.gradient_norm);
  }
  CHECK(first_difference(recorded.parameters(), walked.parameters()) == "");
}

#endif

}  // namespace sequences_test
