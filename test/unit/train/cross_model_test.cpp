// SPDX-License-Identifier: Apache-2.0
// Two models that a strategy trains at once: what is saved, loaded, exported and evaluated.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <parity.hpp>
#include <support/temporary_folder.hpp>

namespace tandem::test {
namespace cross_model_test {

template <class Rule, int Parts = 2>
using Cross = CrossModelParallel<Rule, Auto<Parts>>;
template <class S>
using TrainerOf = Trainer<DeepNet, S, Host>;

TrainerOptions options() {
  TrainerOptions own = parity_options();
  own.clip_norm = 0.0;
  return own;
}

template <class Trainer>
void train(Trainer& trainer, int first, int last) {
  for (int s = first; s < last; ++s) {
    parity_step(trainer, s);
  }
}

TensorDataset<std::int32_t> samples() {
  Samples<float> const own{TrainerOf<SingleDevice<>>::input, 5, 24, 99};
  return {TrainerOf<SingleDevice<>>::input, own.x, own.y};
}

/// All of both models.
template <class Trainer>
std::string differs(Trainer const& a, Trainer const& b) {
  std::string const first = first_difference(a.parameters(0, 0), b.parameters(0, 0));
  return first.empty() ? first_difference(a.parameters(0, 1), b.parameters(0, 1)) : first;
}

template <class Rule, int Parts>
void check_resume() {
  Watchdog const watchdog{"resume of two models"};
  TemporaryFolder const folder;
  std::string const path = folder.file("both.safetensors");
  TrainerOf<Cross<Rule, Parts>> whole{options()};
  train(whole, 0, 3);
  whole.save(path);
  train(whole, 3, 6);
  TrainerOf<Cross<Rule, Parts>> resumed{options()};
  resumed.load(path);
  CHECK(resumed.position().step == 3);
  train(resumed, 3, 6);
  CHECK(differs(whole, resumed) == "");
}

TEST_CASE("training resumes exactly, in the middle of a period, too") {
  check_resume<AverageWeights<4>, 2>();
  check_resume<Overlapped<AverageWeightsAndState<2>>, 3>();
  check_resume<AverageWeightsAndState<>, 2>();
}

TEST_CASE("a file has the second model only where it may differ") {
  TemporaryFolder const folder;
  auto const has_second = [&](auto&& trainer) {
    train(trainer, 0, 1);
    trainer.save(folder.file("model.safetensors"));
    return Safetensors::read(folder.file("model.safetensors")).find("second.0.weight") != nullptr;
  };
  CHECK_FALSE(has_second(TrainerOf<Cross<AverageGradients>>{options()}));
  CHECK_FALSE(has_second(TrainerOf<Cross<AverageWeightsAndState<>>>{options()}));
  CHECK(has_second(TrainerOf<Cross<AverageWeights<>>>{options()}));
  CHECK(has_second(TrainerOf<Cross<AverageWeightsAndState<4>>>{options()}));
}

TEST_CASE("one model takes the mean of two, and two models take the one") {
  Watchdog const watchdog{"one model and two"};
  TemporaryFolder const folder;
  TrainerOf<Cross<AverageWeights<4>>> two{options()};
  train(two, 0, 2);
  CHECK(first_difference(two.parameters(0, 0), two.parameters(0, 1)) != "");
  two.save(folder.file("two.safetensors"));
  two.export_model(folder.file("exported.safetensors"));
  TrainerOf<SingleDevice<Microbatches<2>>> one{options()};
  one.load(folder.file("two.safetensors"));
  auto const first = two.parameters(0, 0);
  auto const second = two.parameters(0, 1);
  auto const mean = one.parameters();
  for (std::size_t p = 0; p < mean.size(); ++p) {
    INFO(mean[p].name);
    for (std::size_t i = 0; i < mean[p].value.size(); ++i) {
      REQUIRE(mean[p].value[i] == (first[p].value[i] + second[p].value[i]) / 2);
    }
    for (std::size_t s = 0; s < mean[p].states.size(); ++s) {
      REQUIRE(mean[p].states[s][0] == (first[p].states[s][0] + second[p].states[s][0]) / 2);
    }
  }
  Predictor<DeepNet, Host> predictor{{.threads = 1}};
  for (WhichModel const which : {WhichModel::average, WhichModel::first, WhichModel::second}) {
    std::vector<float> const wanted = two.predict(samples(), which);
    predictor.load(folder.file("two.safetensors"), which);
    CHECK(predictor.predict(samples()) == wanted);
    predictor.take(two, which);
    CHECK(predictor.predict(samples()) == wanted);
  }
  TrainerOf<SingleDevice<>> exported{options()};
  exported.load_weights(folder.file("exported.safetensors"));
  CHECK(difference(exported.parameters(), mean, Part::value).error == 0.0);

  one.save(folder.file("one.safetensors"));
  TrainerOf<Cross<AverageWeights<4>>> both{options()};
  both.load(folder.file("one.safetensors"));
  CHECK(first_difference(both.parameters(0, 0), mean) == "");
  CHECK(first_difference(both.parameters(0, 1), mean) == "");
}

template <class Rule, int Parts>
void check_evaluation() {
  Watchdog const watchdog{"evaluation of two models"};
  TemporaryFolder const folder;
  TrainerOf<Cross<Rule, Parts>> two{options()};
  train(two, 0, 3);
  auto const data = samples();
  std::vector<float> const before(two.parameters()[0].value.begin(),
                                  two.parameters()[0].value.end());
  auto const loss_of = [&](std::vector<NamedParameter<float>> const& parameters) {
    save_parameters(folder.file("model.safetensors"), parameters);
    TrainerOf<SingleDevice<Microbatches<2>>> one{options()};
    one.load_weights(folder.file("model.safetensors"));
    return one.evaluate(data).loss;
  };
  CHECK(two.evaluate(data, WhichModel::first).loss == loss_of(two.parameters(0, 0)));
  CHECK(two.evaluate(data, WhichModel::second).loss == loss_of(two.parameters(0, 1)));
  MeanModel<float> const mean{two.parameters(0, 0), two.parameters(0, 1)};
  CHECK(two.evaluate(data).loss == loss_of(mean.parameters()));
  CHECK(two.evaluate(data).loss != two.evaluate(data, WhichModel::second).loss);
  CHECK(std::vector<float>(two.parameters()[0].value.begin(), two.parameters()[0].value.end()) ==
        before);
  TrainerOf<Cross<Rule, Parts>> undisturbed{options()};
  train(undisturbed, 0, 3);
  train(two, 3, 5);
  train(undisturbed, 3, 5);
  CHECK(differs(two, undisturbed) == "");
}

TEST_CASE("either model can be evaluated, or their mean, and goes on as it was") {
  check_evaluation<AverageWeights<4>, 2>();
  check_evaluation<Overlapped<AverageWeightsAndState<2>>, 3>();
}

TEST_CASE("a norm of one gradient is refused where there are two") {
  TrainerOptions clipped = options();
  clipped.clip_norm = 1.0;
  CHECK_THROWS_WITH_AS(TrainerOf<Cross<AverageWeights<>>>{clipped},
                       doctest::Contains("clip_norm is for the one gradient of a batch"),
                       ContractError);
}

TEST_CASE("a loss that is not finite changes neither model") {
  Watchdog const watchdog{"a loss that is not finite"};
  TrainerOf<Cross<AverageWeights<4>>> two{options()};
  TrainerOf<Cross<AverageWeights<4>>> same{options()};
  train(two, 0, 1);
  train(same, 0, 1);
  Samples<float> bad{TrainerOf<SingleDevice<>>::input, 5, 8, 3};
  bad.x.back() = std::numeric_limits<float>::infinity();
  CHECK_THROWS_AS(two.step(bad.x, bad.y), NonFiniteLoss);
  CHECK(differs(two, same) == "");
  train(two, 1, 5);
  train(same, 1, 5);
  CHECK(differs(two, same) == "");
}

template <class Rule, int Parts = 2>
void check_memory(int states_sent) {
  using S = Cross<Rule, Parts>;
  TrainerOf<S> two{options()};
  train(two, 0, 1);
  std::int64_t both = 0;
  for (int rank = 0; rank < Parts; ++rank) {
    DeviceMemory const plan = device_memory<DeepNet, S, Sgd, Fp32>(largest_batch, rank);
    MemoryReport const own = two.memory(rank);
    CHECK(own.parameters == plan.parameters);
    CHECK(own.gradients == plan.gradients);
    CHECK(own.optimizer_state == plan.optimizer_state);
    CHECK(own.exchange == plan.exchange);
    CHECK(own.exchange == states_sent * own.gradients);
    both += own.parameters;
  }
  CHECK(both == 2 * TrainerOf<SingleDevice<>>{options()}.memory().parameters);
}

TEST_CASE("weights are held twice, and what may differ has memory for its average") {
  check_memory<AverageGradients>(0);
  check_memory<AverageWeights<>>(0);
  check_memory<AverageWeights<4>>(1);
  check_memory<Overlapped<AverageWeightsAndState<2>>, 3>(2);
}

}  // namespace cross_model_test
}  // namespace tandem::test
