// SPDX-License-Identifier: Apache-2.0
// Batches, labels and datasets that cannot be: each is refused before any rank sees it, with its
// sentence, and the trainer goes on.

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace bad_batch_test {

using test::contains;
using test::PlainNet;

constexpr Shape plain = image_shape(1, 4, 4);

template <class Call>
std::string refusal(Call const& call) {
  return test::message<ContractError>(call);
}

TEST_CASE("a training batch smaller than its microbatches") {
  test::Watchdog const watchdog{"small batch"};
  using Four = Trainer<PlainNet, DataParallel<2, Microbatches<2>>, Host>;
  Four trainer{{.batch = 8, .threads_per_device = 1}};
  test::Samples<float> const three{plain, 3, 3};
  std::string const text = refusal([&] { trainer.step(three.x, three.y); });
  CHECK(contains(text,
                 "a training batch of 3 samples cannot be split into 4 microbatches; use a larger "
                 "batch, fewer microbatches or devices, or .drop_last = true"));
  CHECK(contains(refusal([&] { trainer.step({}, {}); }), "a training batch of 0 samples"));

  SUBCASE("as the last batch of an epoch: refused before the first step") {
    std::string const last = refusal([&] { trainer.train(test::dataset(plain, 3, 19), 0); });
    CHECK(contains(last, "a training batch of 3 samples cannot be split into 4 microbatches"));
    CHECK(trainer.position().step == 0);
    CHECK(trainer.train(test::dataset(plain, 3, 20), 0).steps == 3);
  }
  SUBCASE("drop_last leaves it out") {
    Four dropping{{.batch = 8, .drop_last = true, .threads_per_device = 1}};
    EpochResult const result = dropping.train(test::dataset(plain, 3, 19), 0);
    CHECK(result.steps == 2);
    CHECK(result.samples == 16);
  }
  SUBCASE("as the batch itself: refused by the constructor") {
    CHECK(contains(refusal([] { Four{{.batch = 3, .threads_per_device = 1}}; }),
                   "a training batch of 3 samples cannot be split into 4 microbatches"));
  }
  SUBCASE("evaluation takes any batch") {
    CHECK(trainer.evaluate(test::dataset(plain, 3, 1)).samples == 1);
  }
}

TEST_CASE("a batch for which there is no memory is refused before any is touched") {
  if (available_memory() < 0) {
    return;
  }
  test::Watchdog const watchdog{"batch of 2^31 - 1"};
  constexpr int most = std::numeric_limits<int>::max();
  auto const text = [](auto const& make) { return test::message<Error>(make); };
  using One = Trainer<test::TinyNet, SingleDevice<>, Host>;
  using Two = Trainer<test::TinyNet, DataParallel<2>, Host>;
  CHECK(contains(text([] { One{{.batch = most, .threads_per_device = 1}}; }),
                 "out of memory: a host device asks for "));
  CHECK(contains(text([] { Two{{.batch = most - 1, .threads_per_device = 1}}; }),
                 "out of memory: a host device asks for "));
}

struct NormNet
    : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<4>>, BatchNorm2d<>, Flatten, Linear<3>>> {
};

TEST_CASE("a batch norm with one value a channel") {
  test::Watchdog const watchdog{"one value"};
  Trainer<NormNet, SingleDevice<Microbatches<2>>, Host> trainer{
      {.batch = 4, .threads_per_device = 1}};
  test::Samples<float> const three{plain, 3, 3};
  std::string const text = refusal([&] { trainer.step(three.x, three.y); });
  CHECK(contains(text,
                 "batch norm '1' has one value a channel in microbatch 1 of a batch of 3 "
                 "samples: it has no variance; use a larger batch or fewer microbatches"));
  test::Samples<float> const four{plain, 3, 4};
  CHECK(trainer.step(four.x, four.y).samples == 4);
}

TEST_CASE("of an epoch that goes on with another batch, only what is left is checked") {
  test::Watchdog const watchdog{"another batch"};
  test::TemporaryFolder const folder;
  auto const data = test::dataset(plain, 3, 12);
  using Net = Trainer<NormNet, SingleDevice<>, Host>;
  auto const resumed = [&](std::int64_t done, int batch) {
    Net before{{.batch = 4, .threads_per_device = 1}};
    before.set_position(0, done);
    before.save(folder.file("run"));
    auto after = std::make_unique<Net>(TrainerOptions{.batch = batch, .threads_per_device = 1});
    after->load(folder.file("run"));
    return after;
  };
  // 8 samples in batches of 7 leave a batch of one value a channel, which 12 in batches of 7 do not
  CHECK(contains(refusal([&] { resumed(4, 7)->train(data, 0); }),
                 "batch norm '1' has one value a channel in microbatch 0 of a batch of 1 samples"));
  CHECK(contains(refusal([&] { resumed(0, 11)->train(data, 0); }), "of a batch of 1 samples"));
  CHECK(resumed(4, 11)->train(data, 0).samples == 8);  // one batch, which is good
  auto const at_end = resumed(12, 5);
  CHECK(at_end->train(data, 0).steps == 0);
  CHECK(at_end->position().epoch == 1);
}

TEST_CASE("a dataset that has shrunk since the checkpoint") {
  test::Watchdog const watchdog{"shrunk dataset"};
  Trainer<PlainNet, SingleDevice<>, Host> trainer{{.batch = 4, .threads_per_device = 1}};
  trainer.set_position(2, 12);
  CHECK(refusal([&] { trainer.train(test::dataset(plain, 3, 11), 2); }) ==
        "train(data, epoch): 12 samples of this epoch have been trained on, but the dataset has "
        "only 11; give the dataset that the run began with, or begin the epoch anew by "
        "trainer.set_position(trainer.position().epoch)");
  CHECK(trainer.position().position == 12);
  CHECK(trainer.train(test::dataset(plain, 3, 11), 3).samples == 11);  // the next may be smaller
  trainer.set_position(2, 12);
  trainer.set_position(trainer.position().epoch);
  CHECK(trainer.train(test::dataset(plain, 3, 11), 2).samples == 11);
}

TEST_CASE("a label that is no class") {
  test::Watchdog const watchdog{"labels"};
  Trainer<PlainNet, DataParallel<2>, Host> trainer{{.batch = 4, .threads_per_device = 1}};
  auto const before = test::values_of(trainer.parameters());
  test::Samples<float> samples{plain, 3, 4};
  samples.y[2] = 3;
  std::string const sentence =
      "label 3 of sample 2 of the batch is out of range: the network has 3 outputs";
  CHECK(contains(refusal([&] { trainer.step(samples.x, samples.y); }), sentence));
  auto const data = test::dataset(plain, samples);
  std::string const of_dataset =
      "label 3 of sample 2 of the dataset is out of range: the network has 3 outputs";
  CHECK(contains(refusal([&] { trainer.evaluate(data); }), of_dataset));
  CHECK(contains(refusal([&] { trainer.train(data, 0); }), of_dataset));
  samples.y[2] = -1;
  CHECK(contains(refusal([&] { trainer.step(samples.x, samples.y); }), "label -1 of sample 2"));
  CHECK(test::values_of(trainer.parameters()) == before);
  samples.y[2] = 2;
  CHECK(trainer.step(samples.x, samples.y).samples == 4);
  CHECK(test::values_of(trainer.parameters()) != before);
}

TEST_CASE("a label that is no class is named by its sample of the dataset, wherever it is read") {
  test::Watchdog const watchdog{"labels of a dataset"};
  Trainer<PlainNet, DataParallel<2>, Host> trainer{{.batch = 4, .threads_per_device = 1}};
  test::Samples<float> const good{plain, 3, 19};
  for (std::int64_t bad = 0; bad < 19; ++bad) {
    CAPTURE(bad);
    test::Samples<float> samples = good;
    samples.y[static_cast<std::size_t>(bad)] = 3;
    auto const data = test::dataset(plain, samples);
    std::string const sentence = "label 3 of sample " + std::to_string(bad) + " of the dataset is";
    CHECK(contains(refusal([&] { trainer.evaluate(data); }), sentence));
    CHECK(contains(refusal([&] { trainer.train(data, bad); }), sentence));
  }
}

TEST_CASE("arrays and datasets that do not fit the network") {
  Trainer<PlainNet, SingleDevice<>, Host> trainer{{.batch = 4, .threads_per_device = 1}};
  test::Samples<float> const five{plain, 3, 5};
  CHECK(contains(refusal([&] { trainer.step(five.x, five.y); }),
                 "more samples than TrainerOptions::batch"));
  std::span<float const> const x{five.x};
  std::span<std::int32_t const> const y{five.y};
  CHECK(contains(refusal([&] { trainer.step(x.first(33), y.first(2)); }),
                 "x must be whole samples, with targets for each"));
  CHECK(contains(refusal([&] { trainer.step(x.first(32), y.first(3)); }),
                 "x must be whole samples, with targets for each"));
  auto const wide = test::dataset(image_shape(1, 4, 5), 3, 8);
  std::string const sentence = "the dataset has samples of 1x4x5 with 1 targets";
  CHECK(contains(refusal([&] { trainer.train(wide, 0); }), sentence));
  CHECK(contains(refusal([&] { trainer.evaluate(wide); }), sentence));
  CHECK(contains(refusal([&] { trainer.predict(wide); }), sentence));
  CHECK(contains(refusal([&] { trainer.train(wide, 0); }), "1x4x4"));
  TensorDataset<std::int32_t> const one_hot{plain, std::vector<float>(16), {0, 1, 0}, 3};
  CHECK(refusal([&] { trainer.train(one_hot, 0); }) ==
        "the dataset has samples of 1x4x4 with 3 targets, but the network takes 1x4x4 and its loss "
        "1; if the targets are one-hot, save each class's number instead, as argmax does, or train "
        "with SoftCrossEntropy");
}

TEST_CASE("data without a batch to train on, or a sample to evaluate") {
  Trainer<PlainNet, SingleDevice<>, Host> trainer{
      {.batch = 4, .drop_last = true, .threads_per_device = 1}};
  auto const none = test::dataset(plain, 3, 0);
  CHECK(contains(refusal([&] { trainer.train(none, 0); }),
                 "an epoch of 0 samples has no batch to train on"));
  CHECK(
      contains(refusal([&] { trainer.train(test::dataset(plain, 3, 3), 0); }),
               "an epoch of 3 samples has no batch to train on: .batch is 4 and .drop_last leaves "
               "out a smaller one"));
  CHECK(contains(refusal([&] { trainer.evaluate(none); }), "there are no samples"));
  CHECK(trainer.predict(none).empty());
}

TEST_CASE("options out of range") {
  using Plain = Trainer<PlainNet, SingleDevice<>, Host>;
  CHECK(contains(refusal([] { Plain{{.batch = 0}}; }), "batch must be 1 or more"));
  CHECK(contains(refusal([] { Plain{{.clip_norm = -1.0}}; }),
                 "clip_norm is -1; give a finite number"));
  CHECK(contains(refusal([] { Plain{{.threads_per_device = -1}}; }),
                 "threads_per_device must be 0 (shared out) or more"));
  CHECK(contains(refusal([] { Plain{{.loader_threads = 0}}; }),
                 "loader_threads must be from 1 to 256"));
  CHECK(contains(refusal([] { Plain{{.cuda = {.branches = 0}}}; }),
                 "cuda.branches must be from 1 (branches run one after another) to 8"));
  CHECK(contains(refusal([] { Plain{{.groups = {{.pattern = "9.*"}}}}; }),
                 "parameter group '9.*' matches no trained parameter"));
}

}  // namespace bad_batch_test
}  // namespace tandem
