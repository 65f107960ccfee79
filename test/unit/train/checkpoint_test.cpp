// SPDX-License-Identifier: Apache-2.0
// Checkpoints that cannot be loaded or written: the sentence, and that nothing has changed.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace checkpoint_test {

using test::contains;
using Plain = Trainer<test::PlainNet, DataParallel<2>, Host>;

constexpr Shape shape = image_shape(1, 4, 4);

TrainerOptions with(Optimizer const& optimizer, std::uint64_t seed = 1) {
  return {.batch = 8, .optimizer = optimizer, .seed = seed, .threads_per_device = 1};
}

/// Trains a little and saves.
std::string saved(test::TemporaryFolder const& folder, Optimizer const& optimizer) {
  Plain trainer{with(optimizer)};
  trainer.train(test::dataset(shape, 3, 16), 0);
  std::string const path = folder.file("old.safetensors");
  trainer.save(path);
  return path;
}

/// The same file with other tensors.
template <class Change>
std::string changed(test::TemporaryFolder const& folder, std::string const& path,
                    Change const& change) {
  Safetensors const file = Safetensors::read(path);
  std::vector<TensorView> tensors = file.tensors();
  change(tensors);
  std::string const result = folder.file("changed.safetensors");
  write_safetensors(result, tensors, with_checksums(tensors, file.metadata()));
  return result;
}

void remove(std::vector<TensorView>& tensors, std::string const& name) {
  CHECK(std::erase_if(tensors, [&](TensorView const& t) { return t.name == name; }) == 1);
}

/// What load() says; checks that it has changed nothing, on any rank.
std::string refusal(std::string const& path, Optimizer const& optimizer = Adam{}) {
  Plain trainer{with(optimizer, 2)};
  trainer.train(test::dataset(shape, 3, 8), 0);
  Plain untouched{with(optimizer, 2)};
  untouched.train(test::dataset(shape, 3, 8), 0);
  std::string const text = test::message<FileError>([&] { trainer.load(path); });
  CHECK(contains(text, "'" + path + "': "));
  for (int rank = 0; rank < 2; ++rank) {
    auto const replica = trainer.parameters(rank);
    CHECK(test::first_difference(replica, untouched.parameters()) == "");
  }
  CHECK(trainer.position().step == 1);
  CHECK(trainer.position().seed == 2);
  test::Samples<float> const batch{shape, 3, 8};
  CHECK(trainer.step(batch.x, batch.y).loss == untouched.step(batch.x, batch.y).loss);
  return text;
}

TEST_CASE("a checkpoint that does not fit changes nothing") {
  test::Watchdog const watchdog{"checkpoint"};
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});

  CHECK(contains(refusal(changed(folder, path, [](auto& t) { remove(t, "3.bias"); })),
                 "tensor '3.bias' is missing; the file is of another network or optimizer"));
  CHECK(contains(
      refusal(changed(folder, path, [](auto& t) { remove(t, "optimizer.exp_avg_sq.0.weight"); })),
      "tensor 'optimizer.exp_avg_sq.0.weight' is missing"));
  CHECK(contains(refusal(changed(folder, path, [](auto& t) { remove(t, "tandem.position"); })),
                 "tensor 'tandem.position' is missing"));
  CHECK(contains(refusal(changed(folder, path,
                                 [](auto& t) {
                                   t.push_back(t.front());
                                   t.back().name = "4.weight";
                                 })),
                 "tensor '4.weight' is not of this network and optimizer; load_weights()"));
  std::string const text = refusal(changed(folder, path, [](auto& t) {
    for (TensorView& tensor : t) {
      if (tensor.name == "3.weight") {
        tensor.shape = {8, 3};
      }
    }
  }));
  CHECK(contains(text, "tensor '3.weight' is ("));
  CHECK(contains(text, " 8 3), but this trainer wants ("));
  CHECK(contains(text, " 3 8)"));
}

TEST_CASE("a checkpoint of another optimizer changes nothing") {
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});
  CHECK(contains(refusal(path, AdamW{}),
                 "the optimizer was Adam, but this trainer has AdamW; "
                 "load_weights() reads the parameters alone"));
  CHECK(contains(refusal(path, Sgd{}), "the optimizer was Adam, but this trainer has Sgd"));
  std::string const plain = saved(folder, Sgd{});
  CHECK(contains(refusal(plain, Sgd{.momentum = 0.9F}),
                 "tensor 'optimizer.momentum_buffer.0.weight' is missing"));
  std::string const heavy = saved(folder, Sgd{.momentum = 0.9F});
  CHECK(contains(refusal(heavy, Sgd{}), "'optimizer.momentum_buffer.0.weight' is not of this "));
}

TEST_CASE("a corrupt or absent checkpoint changes nothing") {
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});
  std::string const whole = test::content(path);
  for (std::size_t const size :
       {whole.size() - 1, whole.size() / 2, std::size_t{20}, std::size_t{3}}) {
    test::put(folder.file("cut"), std::string_view{whole}.substr(0, size));
    refusal(folder.file("cut"));
  }
  test::put(folder.file("long"), whole + "x");
  refusal(folder.file("long"));
  refusal(folder.file("absent"));
}

TEST_CASE("ranks agree only where all of them say yes, and train as before") {
  test::Watchdog const watchdog{"a vote"};
  Plain trainer{with(Adam{})};
  Plain untouched{with(Adam{})};
  test::Samples<float> const batch{shape, 3, 8};
  auto const vote = [&](bool first, bool second) {
    trainer.workers().run(
        [&](auto& rank) { rank.vote(&rank == &trainer.workers().rank(0) ? first : second); });
    return trainer.workers().run([](auto& rank) { return rank.collect(); }).non_finite < 0;
  };
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(vote(true, true));
    CHECK_FALSE(vote(true, false));
    CHECK_FALSE(vote(false, true));
    CHECK_FALSE(vote(false, false));
    CHECK(trainer.step(batch.x, batch.y).loss == untouched.step(batch.x, batch.y).loss);
  }
  CHECK(test::first_difference(trainer.parameters(1), untouched.parameters()) == "");
}

TEST_CASE("load_weights takes parameters only, whatever else is there") {
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});
  Plain source{with(Adam{})};
  source.load(path);
  Plain trainer{with(Sgd{}, 2)};
  trainer.load_weights(path);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(test::values_of(trainer.parameters(rank)) == test::values_of(source.parameters()));
  }
  CHECK(trainer.position().step == 0);
  CHECK(trainer.position().seed == 2);
  auto const before = test::values_of(trainer.parameters());
  std::string const bad = changed(folder, path, [](auto& t) { remove(t, "0.bias"); });
  CHECK(contains(test::message<FileError>([&] { trainer.load_weights(bad); }),
                 "tensor '0.bias' is missing"));
  CHECK(test::values_of(trainer.parameters()) == before);
}

TEST_CASE("a checkpoint larger than the process may write leaves the old one") {
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});
  std::string const old = test::content(path);
  Plain trainer{with(Adam{})};
  trainer.load(path);
  test::Samples<float> const batch{shape, 3, 8};
  trainer.step(batch.x, batch.y);

  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = old.size() / 2;
  auto* const handler = std::signal(SIGXFSZ, SIG_DFL);  // a write beyond it ends the process
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string text;
  try {
    trainer.save(path);
  } catch (FileError const& error) {
    text = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(text, "cannot write the new content"));
  CHECK(contains(text, "the previous file, if there was one, is untouched"));
  CHECK(test::content(path) == old);
  CHECK(folder.entries() == 1);  // no temporary file left
  Plain next{with(Adam{})};
  next.load(path);
  CHECK(next.position().step == 2);
  trainer.save(path);  // and it may again
  next.load(path);
  CHECK(next.position().step == 3);
  CHECK(test::first_difference(next.parameters(), trainer.parameters()) == "");
}

}  // namespace checkpoint_test
}  // namespace tandem
