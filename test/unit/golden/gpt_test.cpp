// SPDX-License-Identifier: Apache-2.0
// Small language models against PyTorch: the loss, every gradient, and five steps of AdamW, in
// double and in float; sequences of several lengths with padding and without.

#include "golden.hpp"

#include <support/watchdog.hpp>

namespace tandem {
namespace gpt_test {

constexpr int vocabulary = 65;
constexpr int positions = 16;

struct NanoGpt : models::Gpt<vocabulary, positions, 32, 4, 2, Gelu> {};
struct SmallGpt : models::Gpt<vocabulary, positions, 16, 2, 2, Gelu> {};

/// The same parameters as SmallGpt, but every row looks at all of its sample.
template <class Body>
using Around = Residual<Body>;
struct Looks : Sequential<LayerNorm<>, Linear<48>, Attention<2>, Linear<16>> {};
struct Thinks : Sequential<LayerNorm<>, Linear<64>, Gelu, Linear<16>> {};
struct Words : Embedding<vocabulary, 16> {};
struct Encoder
    : Network<Tokens<positions, vocabulary>,
              Sequential<Words, Positions<>, Repeat<2, Sequential<Around<Looks>, Around<Thinks>>>,
                         LayerNorm<>, Vocabulary<vocabulary, Shares<Words>, NoBias>>> {};

/// 0.1 as PyTorch has it: a float.
struct Tenth {
  static constexpr double value = 0.1F;
};

/// Llama's ways: RMS norms, rotary positions, key heads, SwiGLU; smoothed targets.
template <class... Bias>
struct LlamaLooks : Sequential<RmsNorm<>, Linear<64, Bias...>, RotaryPositions<4, KeyHeads<2>>,
                               Attention<4, Causal, KeyHeads<2>>, Linear<32, Bias...>> {};
struct TanhThinks : Sequential<RmsNorm<>, Linear<128>, GeluTanh, Linear<32>> {};
struct SwiThinks : Sequential<RmsNorm<>, Linear<176, NoBias>, SwiGlu, Linear<32, NoBias>> {};
struct Llama : Network<Tokens<positions, vocabulary>,
                       Sequential<Embedding<vocabulary, 32>,
                                  Sequential<Around<LlamaLooks<>>, Around<TanhThinks>>,
                                  Sequential<Around<LlamaLooks<NoBias>>, Around<SwiThinks>>,
                                  RmsNorm<>, Vocabulary<vocabulary, Smoothing<Tenth>>>> {};

/// Names of the file's parameters in the network's order, which is the file's.
std::vector<std::string> names_of(test::Golden const& golden) {
  std::vector<std::string> names;
  Safetensors const file = Safetensors::read(golden.path());
  for (TensorView const& tensor : file.tensors()) {
    if (tensor.name.starts_with("transformer.") || tensor.name.starts_with("lm_head.")) {
      names.push_back(tensor.name);
    }
  }
  return names;
}

template <class Net, class Backend, class S = SingleDevice<>>
struct Trained {
  using TrainerType = Trainer<Net, S, Backend>;
  using T = typename TrainerType::T;

  explicit Trained(std::string const& name)
      : golden{name},
        names{names_of(golden)},
        x{golden.values<std::int32_t>("x")},
        targets{golden.values<std::int32_t>("targets")},
        lengths{golden.values<std::int32_t>("lengths")},
        trainer{{.batch = static_cast<int>(lengths.size()),
                 .optimizer = AdamW{.learning_rate = 0.01F, .beta2 = 0.95F, .weight_decay = 0.1F},
                 .clip_norm = 1.0,
                 .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}},
                 .threads_per_device = 1}} {
    std::size_t next = 0;
    for (NamedParameter<T> const& p : trainer.parameters()) {
      std::string const& own = p.owner == p.index ? names.at(next++) : names.at(0);
      trainer.set_parameter(p.name, golden.values<T>(own));
    }
    REQUIRE(next == names.size());
  }

  StepResult step() { return trainer.step(x, targets, {.lengths = lengths}); }

  // Relative to the largest of each tensor.
  void check_gradients(double bound) {
    std::size_t next = 0;
    for (NamedParameter<T> const& p : trainer.parameters()) {
      std::string const& own = p.owner == p.index ? names[next++] : names[0];
      std::vector<double> const wanted = golden.values("gradient." + own);
      test::check_close<T>(own, p.gradient, wanted, test::largest(wanted), bound);
    }
  }

  test::Golden golden;
  std::vector<std::string> names;
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> lengths;
  TrainerType trainer;
};

template <class Net, class Backend, class S = SingleDevice<>>
void check(std::string const& name, double bound) {
  test::Watchdog const watchdog{name.c_str()};
  Trained<Net, Backend, S> own{name};
  auto const losses = own.golden.values("losses.adamw");
  auto const norms = own.golden.values("norms.adamw");
  for (std::size_t s = 0; s < losses.size(); ++s) {
    StepResult const result = own.step();
    INFO(name << ", step " << s);
    CHECK(std::abs(result.loss - losses[s]) <= bound * losses[s]);
    CHECK(std::abs(result.gradient_norm - norms[s]) <= 10 * bound * norms[s]);
    if (s == 0) {
      CHECK(std::abs(result.loss - own.golden.value("loss")) <= bound * losses[s]);
      own.check_gradients(bound);
    }
  }
}

using Double = BasicHost<Portable, Fp64>;

TEST_CASE("a GPT has PyTorch's loss, gradients and steps, in double") {
  check<NanoGpt, Double>("gpt", 1e-12);
}

TEST_CASE("sequences of several lengths, in double") {
  check<SmallGpt, Double>("gpt_lengths", 1e-12);
  check<Encoder, Double>("gpt_encoder", 1e-12);
}

TEST_CASE("RMS norm, rotary positions, key heads, SwiGLU and smoothing, in double") {
  check<Llama, Double>("gpt_llama", 1e-12);
}

TEST_CASE("the same in float") {
  check<NanoGpt, Host>("gpt", 1e-5);
  check<SmallGpt, Host>("gpt_lengths", 1e-5);
  check<Encoder, Host>("gpt_encoder", 1e-5);
  check<Llama, Host>("gpt_llama", 1e-5);
}

TEST_CASE("in a pipeline whose ends share the words, and on replicas") {
  check<NanoGpt, Double, Pipeline<OneFOneB, 3, Split<2>, Split<4>>>("gpt", 1e-12);
  check<SmallGpt, Double, DataParallel<3>>("gpt_lengths", 1e-12);
}

}  // namespace gpt_test
}  // namespace tandem
