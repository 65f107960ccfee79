// SPDX-License-Identifier: Apache-2.0
// Averages of the weights over the steps: against a reference, under every strategy, in evaluation
// and in checkpoints.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace average_test {

using test::message;
using test::TinyNet;
using R = Reproducible<>;
using One = SingleDevice<Microbatches<4>, R>;
constexpr int batch = 8;

TrainerOptions averaging(double decay = 0.75, std::string pattern = "*") {
  return {.batch = batch,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .average = {.decay = decay, .pattern = std::move(pattern)},
          .seed = 7,
          .threads_per_device = 1};
}

template <class S = One, class Backend = Host>
using Tiny = Trainer<TinyNet, S, Backend>;

template <class S>
using Plain = Trainer<test::PlainNet, S, Host>;

template <class T>
void take_step(T& trainer, int step) {
  test::Samples<typename T::T> const data{T::input, 5, batch, static_cast<std::uint64_t>(step)};
  trainer.step(data.x, data.y);
}
template <class T>
void take_steps(T& trainer, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    take_step(trainer, step);
  }
}

/// All weights, statistics and averages.
template <class T>
std::vector<std::vector<double>> bits_of(T const& trainer) {
  std::vector<std::vector<double>> all;
  for (auto const& p : trainer.parameters()) {
    all.emplace_back(p.value.begin(), p.value.end());
    all.emplace_back(p.average.begin(), p.average.end());
  }
  return all;
}

auto const& data() {
  static auto const set = test::dataset(Tiny<>::input, 5, batch + 3, 3);
  return set;
}

TEST_CASE("averages: decay a + (1 - decay) w in double, from the weights after the first step") {
  Tiny<SingleDevice<>, BasicHost<Portable, Fp64>> trainer{averaging(0.75, "*.weight")};
  auto const parameters = trainer.parameters();
  std::vector<std::vector<double>> reference(parameters.size());
  for (int step = 0; step < 5; ++step) {
    take_step(trainer, step);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      bool const weight = std::string_view{parameters[p].name}.ends_with(".weight");
      CHECK(parameters[p].average.size() == (weight ? parameters[p].value.size() : 0));
      reference[p].resize(parameters[p].average.size());
      for (std::size_t i = 0; i < reference[p].size(); ++i) {
        double const w = parameters[p].value[i];
        reference[p][i] = step == 0 ? w : 0.75 * reference[p][i] + 0.25 * w;
      }
      if (weight) {
        CHECK(test::relative_error(parameters[p].average, std::span{reference[p]}) <= 1e-15);
      }
    }
  }
}

template <class S>
void check_strategy(std::vector<std::vector<double>> const& bits, std::vector<float> const& outputs,
                    Evaluation const& evaluation) {
  test::Watchdog const watchdog{"averages"};
  Tiny<S> trainer{averaging()};
  take_steps(trainer, 0, 4);
  CHECK(bits_of(trainer) == bits);
  CHECK(trainer.predict(data()) == outputs);
  CHECK(trainer.evaluate(data()).loss == evaluation.loss);
  CHECK(bits_of(trainer) == bits);  // as before the evaluation
  auto const replica = trainer.parameters(S::ranks > 2 ? 1 : 0);
  for (std::size_t p = 0; p < replica.size(); ++p) {
    CHECK(std::equal(replica[p].average.begin(), replica[p].average.end(), bits[2 * p + 1].begin(),
                     bits[2 * p + 1].end()));
  }
}

TEST_CASE("averages: the same bits under every strategy, and evaluation takes them") {
  Tiny<> one{averaging()};
  take_steps(one, 0, 4);
  auto const bits = bits_of(one);
  auto const outputs = one.predict(data());
  Evaluation const evaluation = one.evaluate(data());
  CHECK(bits_of(one) == bits);
  check_strategy<DataParallel<4, R>>(bits, outputs, evaluation);
  check_strategy<Pipeline<OneFOneB, 4, Split<4>, Split<5>, R>>(bits, outputs, evaluation);
  check_strategy<Pipeline<Chimera, 4, Split<4>, Split<5>, R>>(bits, outputs, evaluation);
  check_strategy<Hybrid<DataParallel<2, R>, Pipeline<GPipe, 2, Split<4>, Split<5>>>>(bits, outputs,
                                                                                     evaluation);
}

TEST_CASE(
    "averages: what is evaluated is a model of the averages, and WhichModel::first of weights") {
  test::TemporaryFolder const folder;
  Tiny<> trainer{averaging()};
  Tiny<> plain{averaging(0.0)};
  CHECK(trainer.evaluate(data()).loss ==
        plain.evaluate(data()).loss);  // none before the first step
  take_steps(trainer, 0, 4);
  take_steps(plain, 0, 4);
  CHECK(trainer.predict(data(), WhichModel::first) == plain.predict(data()));  // the same training
  CHECK(trainer.predict(data()) != plain.predict(data()));

  trainer.export_model(folder.file("averages"));
  Tiny<> other{averaging(0.0)};
  other.load_weights(folder.file("averages"));
  CHECK(other.predict(data()) == trainer.predict(data()));
  CHECK(other.evaluate(data()).loss == trainer.evaluate(data()).loss);
}

TEST_CASE("averages: a resumed run has the bits of one that was never interrupted") {
  test::TemporaryFolder const folder;
  Tiny<> whole{averaging()};
  take_steps(whole, 0, 3);
  whole.save(folder.file("three"));
  take_steps(whole, 3, 6);

  Tiny<DataParallel<2, Microbatches<2>, R>> resumed{averaging()};
  resumed.load(folder.file("three"));
  take_steps(resumed, 3, 6);
  CHECK(bits_of(resumed) == bits_of(whole));

  auto const file = Safetensors::read(folder.file("three"));
  CHECK(file.find("average.0.weight") != nullptr);
  CHECK(file.find("average.1.running_mean") == nullptr);
}

TEST_CASE("averages: they begin at the weights of a file that has none") {
  test::TemporaryFolder const folder;
  Tiny<> plain{averaging(0.0)};
  take_steps(plain, 0, 2);
  plain.save(folder.file("plain"));
  Tiny<> trainer{averaging()};
  auto const begins_at_weights = [&] {
    for (auto const& p : trainer.parameters()) {
      CHECK((p.average.empty() || test::same_bits(p.average, p.value)));
    }
    CHECK(trainer.predict(data()) == plain.predict(data()));
  };
  trainer.load(folder.file("plain"));
  begins_at_weights();
  take_steps(trainer, 2, 4);
  CHECK(trainer.predict(data()) != trainer.predict(data(), WhichModel::first));
  trainer.load_weights(folder.file("plain"));
  begins_at_weights();
}

TEST_CASE("averages: a step whose loss is no number leaves them, and frozen weights have none") {
  TrainerOptions options = averaging();
  options.groups = {{.pattern = "8.weight", .frozen = true}};
  Tiny<> trainer{options};
  take_steps(trainer, 0, 3);
  auto const before = bits_of(trainer);
  test::Samples<float> bad{Tiny<>::input, 5, batch, 3};
  bad.x[5] = NAN;
  CHECK_THROWS_AS(trainer.step(bad.x, bad.y), NonFiniteLoss);
  CHECK(bits_of(trainer) == before);
  for (auto const& p : trainer.parameters()) {
    CHECK(p.average.empty() == (p.role == Role::statistic || p.name == "8.weight"));
  }
}

TEST_CASE("averages: what is refused") {
  auto const refusal = [](TrainerOptions const& options) {
    return message<ContractError>([&] { Tiny<>{options}; });
  };
  CHECK(refusal(averaging(1.0)) ==
        "TrainerOptions: average.decay is 1; give a number from 0 to less than 1");
  CHECK(
      refusal(averaging(0.9, "*.running_mean")) ==
      "TrainerOptions: average.pattern '*.running_mean' matches no trained weight; names look like "
      "'0.weight'");
  CHECK(message<ContractError>([] {
          Plain<Pipeline<PipeDream, 1, Split<2>, Split<2>>>{averaging()};
        }).find("average is of the weights after each step") != std::string::npos);
  CHECK(message<ContractError>([] {
          Plain<CrossModelParallel<AverageWeights<>, Split<2>, Split<2>>>{averaging()};
        }).find("average is of the weights of one model") != std::string::npos);

  test::TemporaryFolder const folder;
  Tiny<> trainer{averaging()};
  take_steps(trainer, 0, 1);
  trainer.save(folder.file("averages"));
  Tiny<> plain{averaging(0.0)};
  CHECK(message<FileError>([&] {
          plain.load(folder.file("averages"));
        }).find("give TrainerOptions::average, or load_weights()") != std::string::npos);
  CHECK_NOTHROW(plain.load_weights(folder.file("averages")));
}

}  // namespace average_test
}  // namespace tandem
