// SPDX-License-Identifier: Apache-2.0
// A trainer's checkpoints in folders: the tensors of a checkpoint of one file, for load(),
// load_weights() and a Predictor.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace checkpoint_folder_load_test {

using Net = test::PlainNet;
using T = Trainer<Net, DataParallel<2>, Host>;

auto const data = test::dataset(image_shape(1, 4, 4), 3, 20);

TrainerOptions options(std::uint64_t seed) {
  return {.batch = 8,
          .optimizer = Adam{.learning_rate = 0.01F},
          .average = {.decay = 0.9},
          .seed = seed,
          .threads_per_device = 1};
}

TEST_CASE("a folder has the tensors of a file, and a run goes on from it with the same bits") {
  test::TemporaryFolder const folder;
  T trainer{options(7)};
  trainer.train(data, 0);
  trainer.train(data, 1, [](StepReport const& report) {
    return report.step == 5 ? AfterStep::stop : AfterStep::go_on;
  });
  trainer.save(folder.file("one"));
  std::string const path = trainer.save_in(folder.file("run"));
  CHECK(path == folder.file("run/step-000005"));

  auto const one = Safetensors::read(folder.file("one"));
  auto const many = detail::read_tensors(path);
  CHECK(many.tensors().size() == one.tensors().size());
  for (TensorView const& tensor : one.tensors()) {
    TensorView const* const own = many.find(tensor.name);
    REQUIRE(own != nullptr);
    CHECK(own->shape == tensor.shape);
    CHECK(std::ranges::equal(own->data, tensor.data));
  }

  trainer.train(data, 1);
  T resumed{options(99)};  // the checkpoint's counts
  resumed.load(path);
  CHECK(resumed.position().step == 5);
  resumed.train(data, 0);
  resumed.train(data, 1);
  CHECK(resumed.position().step == 6);
  CHECK(test::first_difference(resumed.parameters(), trainer.parameters()) == "");
}

TEST_CASE("weights are taken out of a folder, also by a predictor") {
  test::TemporaryFolder const folder;
  T trainer{options(7)};
  trainer.train(data, 0);
  std::string const path = trainer.save_in(folder.name());
  T other{options(8)};
  CHECK(other.load_weights(path).empty());
  CHECK(test::values_of(other.parameters()) == test::values_of(trainer.parameters()));
  Predictor<Net, Host> predictor{path};
  CHECK(predictor.predict(data) == trainer.predict(data));
}

TEST_CASE("a folder that is damaged changes nothing, and a folder of checkpoints is none") {
  test::TemporaryFolder const folder;
  T trainer{options(7)};
  trainer.train(data, 0);
  std::string const path = trainer.save_in(folder.name());
  auto const before = test::values_of(trainer.parameters());
  CHECK(test::contains(test::message<FileError>([&] { trainer.load(folder.name()); }),
                       "give one of them, of which the newest is '" + path + "'"));
  std::string const file = path + "/optimizer-00001-of-00001.safetensors";
  std::string bytes = test::content(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 4);
  test::put(file, bytes);
  CHECK(test::contains(test::message<FileError>([&] { trainer.load(path); }), "is damaged"));
  std::filesystem::remove(file);
  CHECK(test::contains(test::message<FileError>([&] { trainer.load(path); }), file));
  CHECK(test::values_of(trainer.parameters()) == before);
}

}  // namespace checkpoint_folder_load_test
}  // namespace tandem
