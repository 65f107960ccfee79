// SPDX-License-Identifier: Apache-2.0
// Class weights, ignored labels, smoothing and soft labels: PyTorch's losses and gradients, however
// the batch lies on devices.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <unit/golden/golden.hpp>

namespace tandem {
namespace losses_test {

struct Weights {
  static constexpr float class_weights[] = {0.25F, 1.5F, 1.0F, 0.0F, 3.0F};
};

using Ignored = SoftmaxCrossEntropy<IgnoreIndex<>>;
using Weighted = SoftmaxCrossEntropy<Weights>;
using All = SoftmaxCrossEntropy<Percent<10>, IgnoreIndex<-1>, Weights>;
using Soft = SoftCrossEntropy<>;
using SoftAll = SoftCrossEntropy<Weights, Percent<10>>;

static_assert(SoftmaxCrossEntropy<Percent<10>>::plain && !Ignored::plain && !Weighted::plain);
static_assert(WeighsTargets<All> && !WeighsTargets<SoftAll> &&
              !WeighsTargets<SoftmaxCrossEntropy<>>);
static_assert(All::smoothing == 0.1 && All::ignored == -1);

/// Both layers are the identity, so that the input are the logits.
struct Same : Network<Vector<5>, Sequential<Linear<5, NoBias>, Linear<5, NoBias>>> {};
template <class S, class L>
using Train = Trainer<Same, S, BasicHost<Portable, Fp64>, L>;

std::vector<std::int32_t> labels_of(test::Golden const& golden, bool ignored) {
  auto labels = golden.values<std::int32_t>("labels");
  for (std::int32_t& label : labels) {
    label = ignored ? label : std::max(label, 0);
  }
  return labels;
}

std::string identity(std::string const& path) {
  Train<SingleDevice<>, Soft> trainer;
  for (NamedParameter<double> const& p : trainer.parameters()) {
    std::vector<double> values(p.value.size());
    for (std::size_t i = 0; i < values.size(); i += 6) {
      values[i] = 1.0;
    }
    trainer.set_parameter(p.name, values);
  }
  trainer.export_model(path);
  return path;
}

/// A step on the golden batch; checks loss and gradient, and gives the bits of both.
template <class S, class L>
std::vector<double> step(test::Golden const& golden, std::string const& name) {
  CAPTURE(name);
  Train<S, L> trainer{
      {.batch = 7, .optimizer = Sgd{.learning_rate = 0.0F}, .threads_per_device = 1}};
  test::TemporaryFolder const folder;
  trainer.load_weights(identity(folder.file("same.safetensors")));
  std::vector<double> const x = golden.values("logits");
  std::vector<typename L::Target> targets;
  if constexpr (std::is_same_v<typename L::Target, float>) {
    targets = golden.values<float>("soft");
  } else {
    targets = labels_of(golden, L::ignores);
  }
  StepResult const result = trainer.step(x, targets);
  CHECK(std::abs(result.loss - golden.value(name + ".loss")) <= 1e-14);
  std::vector<double> const slopes = golden.values(name + ".gradient");
  std::vector<double> bits{result.loss, result.metric, result.weight, result.counted};
  for (NamedParameter<double> const& p : trainer.parameters()) {
    for (std::size_t i = 0; i < 25; ++i) {
      double wanted = 0.0;  // of the weight (row, column): sum over samples of slope times input
      for (std::size_t s = 0; s < 7; ++s) {
        wanted += slopes[5 * s + i / 5] * x[5 * s + i % 5];
      }
      CHECK(std::abs(p.gradient[i] - wanted) <= 1e-14);
      bits.push_back(p.gradient[i]);
    }
  }
  return bits;
}

template <class L>
void check(char const* name) {
  test::Golden const golden{"losses"};
  using Tree = Reproducible<4>;
  auto const one = step<SingleDevice<Microbatches<4>, Tree>, L>(golden, name);
  CHECK(step<DataParallel<2, Microbatches<2>, Tree>, L>(golden, name) == one);
  CHECK(step<DataParallel<4, Tree>, L>(golden, name) == one);
  CHECK(step<Hybrid<DataParallel<2, Tree>, Pipeline<OneFOneB, 2, Split<1>, Split<1>>>, L>(
            golden, name) == one);
  step<SingleDevice<>, L>(golden, name);
}

TEST_CASE("ignored labels: PyTorch's loss and gradient, the same bits on every strategy") {
  test::Watchdog const watchdog{"ignored labels"};
  check<Ignored>("ignored");
}
TEST_CASE("class weights: PyTorch's loss and gradient, the same bits on every strategy") {
  test::Watchdog const watchdog{"class weights"};
  check<Weighted>("weighted");
}
TEST_CASE("weights, an ignored label and smoothing together are PyTorch's") {
  test::Watchdog const watchdog{"weights, an ignored label and smoothing"};
  check<All>("all");
}
TEST_CASE("soft labels: PyTorch's loss and gradient, the same bits on every strategy") {
  test::Watchdog const watchdog{"soft labels"};
  check<Soft>("soft");
  check<SoftAll>("soft_all");
}

TEST_CASE("a batch whose labels all have the weight 0 has the loss 0 and no gradient") {
  Trainer<Same, SingleDevice<>, BasicHost<Portable>, All> trainer{
      {.batch = 2, .threads_per_device = 1}};
  auto const before = test::values_of(trainer.parameters());
  std::vector<float> const x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  StepResult const none =
      trainer.step(x, std::vector<std::int32_t>{3, 3});  // and smoothing adds none
  CHECK(none.weight == 0.0);
  CHECK(none.loss == 0.0);
  CHECK(test::values_of(trainer.parameters()) == before);
}

TEST_CASE("neither the mean nor a metric counts an ignored label; of none there is no mean") {
  using One = Trainer<Same, SingleDevice<Microbatches<3>>, BasicHost<Portable>, Ignored,
                      Metrics<Accuracy, TopK<5>>>;
  One trainer{{.batch = 6, .threads_per_device = 1}};
  std::vector<float> const x(30, 1.0F);
  std::vector<std::int32_t> labels{-1, 3, -1, -1, 1, -1};
  StepResult const some = trainer.step(x, labels);
  CHECK(some.weight == 2.0);
  CHECK(some.counted == 2.0);
  CHECK(some.metrics["top-5 accuracy"] == 1.0);
  auto const weights = [&] {
    std::span<float const> const own = trainer.parameters()[0].value;
    return std::vector<float>(own.begin(), own.end());
  };
  std::vector<float> const before = weights();
  std::fill(labels.begin(), labels.end(), -1);
  StepResult const none = trainer.step(x, labels);
  CHECK(none.loss == 0.0);
  CHECK(none.metric == 0.0);
  CHECK(weights() == before);
  TensorDataset<std::int32_t> const data{vector_shape(5), x, labels};
  CHECK(test::message<ContractError>([&] { trainer.evaluate(data); }) ==
        "evaluate(data): no sample has a target that counts, so there is no mean over them");
  labels[4] = -2;
  CHECK(test::message<ContractError>([&] { trainer.step(x, labels); }) ==
        "label -2 of sample 4 of the batch is out of range: the network has 5 outputs");
}

TEST_CASE("soft labels must be shares, and an accuracy counts the largest") {
  Trainer<Same, SingleDevice<>, BasicHost<Portable>, Soft> trainer{
      {.batch = 2, .threads_per_device = 1}};
  for (NamedParameter<float> const& p : trainer.parameters()) {
    std::vector<float> values(p.value.size());
    for (std::size_t i = 0; i < values.size(); i += 6) {
      values[i] = 1.0F;
    }
    trainer.set_parameter(p.name, values);
  }
  std::vector<float> const x{0, 1, 0, 0, 0, 0, 0, 0, 1, 0};
  std::vector<float> shares{0.4F, 0.6F, 0, 0, 0, 0.5F, 0, 0, 0.3F, 0.2F};
  CHECK(trainer.step(x, shares).metric == 0.5);
  shares[0] = 0.3F;
  CHECK(test::message<ContractError>([&] { trainer.step(x, shares); }) ==
        "the soft labels of sample 0 of the batch are no shares of its classes: their sum is "
        "0.900000, not 1; soft_labels(data) makes them of labels");
  shares = {0, 1, 0, 0, 0, 1.5F, -0.5F, 0, 0, 0};
  CHECK(test::contains(test::message<ContractError>([&] { trainer.step(x, shares); }),
                       "sample 1 of the batch are no shares of its classes: one is below 0"));
}

/// Images with labels, and how many there are.
struct Pictures : TensorDataset<std::int32_t> {
  Pictures()
      : TensorDataset<std::int32_t>{image_shape(1, 4, 4), std::vector<float>(176), [] {
                                      std::vector<std::int32_t> labels;
                                      for (int i = 0; i < 11; ++i) {
                                        labels.push_back(i % 3);
                                      }
                                      return labels;
                                    }()} {}
  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const {
    TensorDataset<std::int32_t>::read(index, x, y);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>((static_cast<std::size_t>(index) * 7 + i * 5) % 16) / 16.0F;
    }
  }
  [[nodiscard]] static int classes() { return 3; }
};

template <class S>
std::vector<float> mixed_epochs() {
  struct Net : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>>, ReLU, Flatten, Linear<3>>> {
  };
  Trainer<Net, S, BasicHost<Portable>, SoftCrossEntropy<>> trainer{
      {.batch = 4,
       .optimizer = Sgd{.learning_rate = 0.1F},
       .seed = 9,
       .drop_last = true,
       .threads_per_device = 1}};
  auto const data = soft_labels(augment(Pictures{}, RandomFlip{}), Mixup{.alpha = 1.0F}, CutMix{});
  std::vector<float> bits;
  for (auto epoch : epochs(2)) {
    bits.push_back(static_cast<float>(trainer.train(data, epoch).loss));
  }
  for (NamedParameter<float> const& p : trainer.parameters()) {
    bits.insert(bits.end(), p.value.begin(), p.value.end());
  }
  bits.push_back(static_cast<float>(trainer.evaluate(data).accuracy));
  return bits;
}

TEST_CASE("a run on mixed samples has the same bits on one device and on two") {
  test::Watchdog const watchdog{"mixed samples"};
  using Tree = Reproducible<2>;
  CHECK(mixed_epochs<DataParallel<2, Tree>>() ==
        mixed_epochs<SingleDevice<Microbatches<2>, Tree>>());
}

}  // namespace losses_test
}  // namespace tandem
