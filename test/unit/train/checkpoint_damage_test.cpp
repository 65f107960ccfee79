// SPDX-License-Identifier: Apache-2.0
// A checkpoint with a flipped bit or a wrong number: load says so and names the file, or loads what
// was saved. No trainer: the functions that one calls.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/train/checkpoint/load.hpp>

#include <support/temporary_folder.hpp>

namespace tandem {
namespace checkpoint_damage_test {

using test::contains;

std::vector<std::string> const states{"exp_avg"};

/// Two parameters and their states.
class Model {
 public:
  explicit Model(float first) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = first + static_cast<float>(i) / 3;
    }
  }
  Model(Model const&) = delete;
  Model& operator=(Model const&) = delete;

  [[nodiscard]] std::vector<NamedParameter<float>> parameters() {
    std::vector<NamedParameter<float>> list(2);
    std::span<float> rest{values_};
    auto const take = [&](std::size_t count) {
      std::span<float> const own = rest.first(count);
      rest = rest.subspan(count);
      return own;
    };
    list[0].name = "0.weight";
    list[0].shape = {2, {2, 3, 0, 0}};
    list[1].name = "0.bias";
    list[1].shape = vector_shape(2);
    for (NamedParameter<float>& p : list) {
      auto const count = static_cast<std::size_t>(p.shape.elements());
      p.value = take(count);
      p.states = {take(count)};
    }
    return list;
  }

  [[nodiscard]] bool operator==(Model const& other) const { return values_ == other.values_; }

 private:
  std::vector<float> values_ = std::vector<float>(16);
};

TrainingPosition load(std::string const& path, Model& model) {
  auto const loaded =
      read_checkpoint<float>(path, model.parameters(), {model.parameters()}, states, "Adam");
  loaded.take();
  return loaded.position;
}

bool same(TrainingPosition const& a, TrainingPosition const& b) {
  return a.step == b.step && a.epoch == b.epoch && a.position == b.position && a.seed == b.seed;
}

TEST_CASE("a flipped bit anywhere: a sentence that names the file, or what was saved") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  Model saved{1.0F};
  TrainingPosition const at{.step = 7, .epoch = 1, .position = 24, .seed = 5};
  save_checkpoint(path, saved.parameters(), states, at, "Adam");
  Model const before{2.0F};
  std::size_t const size = test::content(path).size();
  int refused = 0;
  for (std::size_t byte = 0; byte < size; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      test::flip(path, byte, bit);
      Model model{2.0F};
      INFO("bit " << bit << " of byte " << byte);
      try {
        bool const as_saved = same(load(path, model), at) && model == saved;
        CHECK(as_saved);
      } catch (FileError const& error) {
        ++refused;
        bool const untouched = model == before;
        CHECK(untouched);
        CHECK(std::string{error.what()}.starts_with("'" + path + "': "));
      }
      test::flip(path, byte, bit);
    }
  }
  CHECK(refused > static_cast<int>(size) * 8 - 100);  // what is left: names in the metadata
}

TEST_CASE("a checkpoint without checksums, as 0.1 wrote them, is read") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  Model saved{1.0F};
  save_checkpoint(path, saved.parameters(), states, {.step = 7}, "Adam");
  Safetensors const file = Safetensors::read(path);
  write_safetensors(folder.file("old"), file.tensors(), {{"format", "tandem"}, {"version", "1"}});
  Model model{2.0F};
  CHECK(load(folder.file("old"), model).step == 7);
  bool const as_saved = model == saved;
  CHECK(as_saved);
}

TEST_CASE("what a refusal shows of the file is text that no terminal obeys") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  Model saved{1.0F};
  std::vector<NamedParameter<float>> more = saved.parameters();
  more.push_back(more.front());
  more.back().name = "\x1B[2J\n\x7F";
  save_checkpoint(path, more, states, {}, "Adam");
  Model model{2.0F};
  CHECK(contains(test::message<FileError>([&] { load(path, model); }),
                 R"(tensor '\x1B[2J\x0A\x7F' is not of this network)"));
  save_checkpoint(path, saved.parameters(), states, {}, "Ad\x1B[2Jam\n");
  CHECK(contains(test::message<FileError>([&] { load(path, model); }),
                 R"(the optimizer was Ad\x1B[2Jam\x0A, but this trainer has Adam)"));
}

TEST_CASE("a position that no training reaches is refused") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (TrainingPosition const& bad : {TrainingPosition{.step = largest},
                                      {.epoch = largest},
                                      {.position = largest},
                                      {.step = (std::int64_t{1} << 53) + 1},
                                      {.step = -1},
                                      {.epoch = -largest}}) {
    Model saved{1.0F};
    save_checkpoint(path, saved.parameters(), states, bad, "Adam");
    Model const before{2.0F};
    Model model{2.0F};
    std::string const text = test::message<FileError>([&] { load(path, model); });
    CHECK(contains(text,
                   "is not between 0 and 2^53, so no training has come there; the file is "
                   "corrupt"));
    CHECK(contains(text, "tandem."));
    bool const untouched = model == before;
    CHECK(untouched);
  }
  Model saved{1.0F};
  save_checkpoint(path, saved.parameters(), states, {.step = std::int64_t{1} << 53, .seed = -1},
                  "Adam");
  Model model{2.0F};
  CHECK(load(path, model).seed == -1);
}

}  // namespace checkpoint_damage_test
}  // namespace tandem
