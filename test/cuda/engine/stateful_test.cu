// SPDX-License-Identifier: Apache-2.0
// Stateful layers on a GPU: Host's numbers, one device's bits, recorded and walked, over
// checkpoints, evaluations and steps that fail while the next is queued.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tandem/data/text/text_stream.hpp>

#include "cuda/engine/support.hpp"

namespace tandem {
namespace stateful_cuda_test {

constexpr int words = 11;
constexpr int batch = 8;

struct Net : Network<Tokens<4, words>,
                     Sequential<Embedding<words, 5>, Lstm<6, Projection<3>, Stateful>,
                                Lstm<5, Stateful>, Gru<5, Stateful>, Vocabulary<words>>> {};

using R = Reproducible<4>;
using One = SingleDevice<Microbatches<4>, R>;
template <class S, class Precision>
using OnGpu =
    Trainer<Net, S, BasicCuda<Portable, Precision>, DefaultLoss<Net>, Accuracy, VirtualTransport>;
template <class S>
using OnHost = Trainer<Net, S, BasicHost<Portable, Fp64>>;

/// In parts side by side.
struct Text {
  std::vector<std::int32_t> tokens = make();

  static std::vector<std::int32_t> make() {
    std::vector<std::int32_t> list;
    for (int i = 0; i < 8 * 32 + 1; ++i) {
      list.push_back(static_cast<std::int32_t>((i * i + i / 3) % words));
    }
    return list;
  }
  [[nodiscard]] ParallelStreams streams() const {
    return ParallelStreams{TokenSpan{tokens, words}, 4, batch};
  }
};

TrainerOptions options() {
  return {.batch = batch,
          .optimizer = Sgd{.learning_rate = 0.5F, .momentum = 0.9F},
          .clip_norm = 1.0,
          .seed = 3,
          .shuffle = false,
          .threads_per_device = 1};
}

/// Step @p step of the text; some samples of each third one are short.
template <class T>
StepResult take_step(T& trainer, int step) {
  Text const text;
  ParallelStreams const data = text.streams();
  std::vector<std::int32_t> x;
  std::vector<std::int32_t> y;
  std::vector<std::int32_t> lengths;
  for (int b = 0; b < batch; ++b) {
    std::vector<std::int32_t> in(4);
    std::vector<std::int32_t> out(4);
    data.read(step % 8 * batch + b, in, out);
    int const length = step % 3 == 1 ? 1 + (b * 3 + step) % 4 : 4;
    std::fill(out.begin() + length, out.end(), -1);
    lengths.push_back(length);
    x.insert(x.end(), in.begin(), in.end());
    y.insert(y.end(), out.begin(), out.end());
  }
  if (step % 3 == 1) {
    return trainer.step(x, y, {.time = 4, .lengths = lengths});
  }
  return trainer.step(x, y);
}

template <class T>
std::vector<double> losses_of(T& trainer, int begin, int end) {
  test::Watchdog const watchdog{"steps of a stateful network on a GPU"};
  std::vector<double> losses;
  for (int step = begin; step < end; ++step) {
    losses.push_back(take_step(trainer, step).loss);
  }
  return losses;
}

void check_near(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    INFO("step " << i);
    CHECK(std::fabs(a[i] - b[i]) <= 1e-11 * std::fabs(b[i]));
  }
}

TEST_CASE("Stateful on Cuda: Host's losses in double, walked as well as recorded") {
  using S = SingleDevice<Microbatches<2>>;
  Text const text;
  TrainerOptions walking = options();
  walking.record = false;
  OnHost<S> host{options()};
  OnGpu<S, Fp64> recorded{options()};
  OnGpu<S, Fp64> walked{walking};
  for (int part = 0; part < 2; ++part) {
    auto const found = losses_of(recorded, 6 * part, 6 * part + 6);
    check_near(found, losses_of(host, 6 * part, 6 * part + 6));
    CHECK(losses_of(walked, 6 * part, 6 * part + 6) == found);
    double const loss = recorded.evaluate(text.streams()).loss;  // disturbs no training
    CHECK(std::fabs(loss - host.evaluate(text.streams()).loss) <= 1e-11 * loss);
    CHECK(recorded.evaluate(text.streams()).loss == loss);  // from 0 again
    std::vector<std::int32_t> const prompt{1, 2, 3};
    CHECK(recorded.generate(prompt, {.tokens = 3, .temperature = 0.0}) ==
          host.generate(prompt, {.tokens = 3, .temperature = 0.0}));
  }
  CHECK(test::first_difference(recorded.parameters(), walked.parameters()) == "");
  recorded.reset_state();
  host.reset_state();
  check_near(losses_of(recorded, 12, 14), losses_of(host, 12, 14));

  DeviceMemory const most = device_memory<Net, S, Sgd, Fp64>(batch, 0);
  CHECK(recorded.memory(0).states == most.states);
}

/// Six steps have the losses and bits of one GPU; the last three after other ones, from a file.
template <class S>
void check_bits(std::string const& file, std::vector<double> const& losses,
                auto const& parameters) {
  OnGpu<S, Fp32> trainer{options()};
  test::TemporaryFolder const folder;
  auto found = losses_of(trainer, 0, 3);
  trainer.save(folder.file("own"));
  auto const own = Safetensors::read(folder.file("own"));
  auto const expected = Safetensors::read(file);
  for (auto const& [name, numbers] :
       {std::pair{"state.1.h", 3}, {"state.1.c", 6}, {"state.2.c", 5}, {"state.3.h", 5}}) {
    auto const* const tensor = own.find(name);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->shape == std::vector<std::int64_t>{batch, numbers});
    CHECK(test::same_bits(tensor->data, expected.find(name)->data));
  }
  take_step(trainer, 5);
  trainer.load(file);
  auto const rest = losses_of(trainer, 3, 6);
  found.insert(found.end(), rest.begin(), rest.end());
  CHECK(found == losses);
  CHECK(test::first_difference(trainer.parameters(), parameters) == "");
}

TEST_CASE("Stateful on Cuda: the bits of one GPU on 2 and 4, over a checkpoint") {
  test::TemporaryFolder const folder;
  OnGpu<One, Fp32> one{options()};
  auto losses = losses_of(one, 0, 3);
  one.save(folder.file("one"));
  auto const rest = losses_of(one, 3, 6);
  losses.insert(losses.end(), rest.begin(), rest.end());
  auto const check = [&]<class S>() {
    check_bits<S>(folder.file("one"), losses, one.parameters());
  };
  check.template operator()<DataParallel<2, Microbatches<2>, R>>();
  check.template operator()<DataParallel<4, R>>();
  check.template operator()<Pipeline<GPipe, 4, Split<2>, Split<3>, R, Checkpoint<Boundaries>>>();
}

/// An epoch of the text goes on where the one before has ended.
struct OneEpoch : ParallelStreams {
  static constexpr bool epochs_go_on = true;
};

TEST_CASE(
    "Stateful on Cuda: a step that fails while another is queued leaves states as they were") {
  using S = DataParallel<2>;
  Text const text;
  OneEpoch const data{text.streams()};
  OnGpu<S, Fp32> trainer{options()};
  OnGpu<S, Fp32> other{options()};
  losses_of(trainer, 0, 4);
  losses_of(other, 0, 4);
  auto const put = [&](float value) {
    auto const first = trainer.parameters()[0];
    std::vector<float> values(first.value.begin(), first.value.end());
    float const old = std::exchange(values[0], value);
    trainer.set_parameter(first.name, values);
    return old;
  };
  float const weight = put(std::numeric_limits<float>::quiet_NaN());
  CHECK_THROWS_AS(trainer.train(data, Epoch{}), NonFiniteLoss);
  put(weight);
  CHECK(losses_of(trainer, 4, 7) == losses_of(other, 4, 7));
}

TEST_CASE("Stateful on Cuda: a step that loss scaling skips has moved its states on, in fp16") {
  TrainerOptions still = options();
  still.optimizer = Sgd{.learning_rate = 0.0F};
  TrainerOptions skipping = still;
  skipping.loss_scaling = LossScaling{.initial = 0x1p30, .every = 1000};
  OnGpu<SingleDevice<>, Fp16> calm{still};
  OnGpu<SingleDevice<>, Fp16> wild{skipping};
  for (int step = 0; step < 4; ++step) {
    StepResult const skipped = take_step(wild, step);
    StepResult const own = take_step(calm, step);
    CHECK(skipped.skipped);
    CHECK(!own.skipped);
    CHECK(skipped.loss == own.loss);
  }
}

}  // namespace stateful_cuda_test
}  // namespace tandem
