// SPDX-License-Identifier: Apache-2.0
// Checkpoints that cannot be loaded or written: the sentence, and that nothing has changed.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
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

/// The weights of a trainer as Stored, under names with @p before in front.
template <class Stored>
std::vector<std::vector<Stored>> write_as(std::string const& path, Dtype dtype, Plain const& from,
                                          std::string const& before = "") {
  std::vector<std::vector<Stored>> memory;
  std::vector<TensorView> tensors;
  for (auto const& p : from.parameters()) {
    auto& own = memory.emplace_back();
    for (float const value : p.value) {
      own.push_back(static_cast<Stored>(value));
    }
    std::vector<std::int64_t> const extents(p.shape.extent, p.shape.extent + p.shape.rank);
    tensors.push_back({before + p.name, dtype, extents, std::as_bytes(std::span{own})});
  }
  write_safetensors(path, tensors, {});
  return memory;
}

template <class Stored, class TrainerType = Plain>
void check_type(Dtype dtype) {
  using T = typename TrainerType::T;
  test::TemporaryFolder const folder;
  Plain const source{with(Sgd{}, 3)};
  auto const written = write_as<Stored>(folder.file("typed"), dtype, source);
  TrainerType trainer{with(Sgd{}, 2)};
  CHECK(trainer.load_weights(folder.file("typed")).empty());
  auto const parameters = trainer.parameters(1);
  for (std::size_t p = 0; p < written.size(); ++p) {
    for (std::size_t i = 0; i < written[p].size(); ++i) {
      CHECK(parameters[p].value[i] == static_cast<T>(written[p][i]));
    }
  }
}

TEST_CASE("load_weights converts F16, BF16, F32 and F64") {
  using Double = Trainer<test::PlainNet, DataParallel<2>, BasicHost<Portable, Fp64>>;
  check_type<Float16>(Dtype::F16);
  check_type<BFloat16>(Dtype::BF16);
  check_type<double>(Dtype::F64);
  check_type<float, Double>(Dtype::F32);
  check_type<Float16, Double>(Dtype::F16);
}

TEST_CASE("a double is rounded to the nearest float, and refused where there is none") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("doubles");
  Plain trainer{with(Sgd{})};
  auto const write = [&](double value) {
    auto memory = write_as<double>(path, Dtype::F64, trainer);
    memory[0][1] = value;
    std::vector<TensorView> tensors;
    auto const parameters = trainer.parameters();
    for (std::size_t p = 0; p < memory.size(); ++p) {
      std::vector<std::int64_t> const extents(
          parameters[p].shape.extent, parameters[p].shape.extent + parameters[p].shape.rank);
      tensors.push_back(
          {parameters[p].name, Dtype::F64, extents, std::as_bytes(std::span{memory[p]})});
    }
    write_safetensors(path, tensors, {});
    trainer.load_weights(path);
    return trainer.parameters()[0].value[1];
  };
  CHECK(write(1.0 + 0x1p-24) == 1.0F);  // a tie goes to the even one
  CHECK(write(1.0 + 0x1.8p-24) == 1.0F + 0x1p-23F);
  CHECK(write(0x1.fffffefffp+127) == 0x1.fffffep+127F);
  CHECK(write(INFINITY) == INFINITY);
  CHECK(contains(test::message<FileError>([&] { write(-0x1.ffffffp+127); }),
                 "which no float holds; take a backend of Fp64"));
}

TEST_CASE("load_weights takes a prefix, renames, and any function of names") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("named");
  Plain const source{with(Sgd{}, 3)};
  auto const wanted = test::values_of(source.parameters());
  auto const loads = [&](auto const& names) {
    Plain trainer{with(Sgd{}, 2)};
    trainer.load_weights(path, names);
    return test::values_of(trainer.parameters(1)) == wanted;
  };
  write_as<float>(path, Dtype::F32, source, "module.");
  CHECK(loads(WeightNames{.prefix = "module."}));
  CHECK(loads([](std::string_view name) { return std::string{name.substr(7)}; }));
  Plain braced{with(Sgd{}, 2)};
  braced.load_weights(path, {.prefix = "module."});
  CHECK(test::values_of(braced.parameters()) == wanted);
  CHECK(test::message<FileError>([&] { braced.load_weights(path); }) ==
        "'" + path +
            "': tensors '0.weight', '0.bias', '3.weight' and 1 more are missing; the file has "
            "'module.0.bias', 'module.0.weight', 'module.3.bias' and 1 more besides, of which "
            "'module.0.weight' is nearest to '0.weight': give {.prefix = \"module.\"} after the "
            "path");

  std::string const renamed = changed(folder, path, [](auto& tensors) {
    for (TensorView& t : tensors) {
      t.name = t.name.starts_with("module.3") ? "head" + t.name.substr(8) : t.name;
    }
    tensors.push_back(tensors.front());
    tensors.back().name = "module.fc.weight";
  });
  WeightNames const names{.prefix = "module.", .rename = {{"hea", "none"}, {"head", "3"}}};
  CHECK(braced.load_weights(renamed, names) == std::vector<std::string>{"module.fc.weight"});
  CHECK(contains(
      test::message<FileError>([&] { braced.load_weights(renamed, {.prefix = "module."}); }),
      "'3.weight', '3.bias' are missing; the file has 'module.fc.weight', 'head.bias', "
      "'head.weight' besides, of which 'head.weight' is nearest to '3.weight': give {.rename ="));
  WeightNames const twice{.prefix = "module.", .rename = {{"head", "3"}, {"fc", "3"}}};
  CHECK(contains(test::message<FileError>([&] { braced.load_weights(renamed, twice); }),
                 "tensors 'head.weight' and 'module.fc.weight' are both '3.weight' by the prefix"));
}

TEST_CASE("load_weights says what a tensor is that cannot be a weight") {
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});
  Plain trainer{with(Sgd{})};
  auto const refusal = [&](auto const& change) {
    std::string const bad = changed(
        folder, path, [&](auto& t) { change(*std::ranges::find(t, "0.bias", &TensorView::name)); });
    return test::message<FileError>([&] { trainer.load_weights(bad); });
  };
  CHECK(contains(refusal([](TensorView& t) { t.dtype = Dtype::I32; }),
                 "tensor '0.bias' is of I32, but weights are of F16, BF16, F32 or F64"));
  CHECK(contains(refusal([](TensorView& t) {
                   t.shape = {1, 2};
                 }),
                 "tensor '0.bias' is (1 2), but this network wants (2) for '0.bias'"));
  CHECK(contains(refusal([](TensorView& t) { t.name = "0.biass"; }),
                 "of which '0.biass' is nearest to '0.bias': give {.rename = {{in the file, in "
                 "the network}}} after the path if that is it"));
  CHECK(contains(refusal([](TensorView& t) {
                   t.name = "0.biass";
                   t.shape = {2, 1};
                 }),
                 "of which '0.biass' is nearest to '0.bias', but is (2 1) and not (2): the file "
                 "is of another network"));
}

TEST_CASE("the nearest tensor is one of the wanted shape, if there is one") {
  test::TemporaryFolder const folder;
  std::string const path = changed(folder, saved(folder, Sgd{}), [](auto& tensors) {
    auto const weight = std::ranges::find(tensors, "3.weight", &TensorView::name);
    weight->name = "classifier";
    tensors.push_back(tensors.front());  // of another shape, and a name that is nearer
    tensors.back().name = "3.weights";
  });
  Plain trainer{with(Sgd{})};
  CHECK(contains(test::message<FileError>([&] { trainer.load_weights(path); }),
                 "of which 'classifier' is nearest to '3.weight': give {.rename"));
}

TEST_CASE("what the names leave out is said where a tensor is missing") {
  test::TemporaryFolder const folder;
  std::string const path = saved(folder, Adam{});
  Plain trainer{with(Sgd{}, 2)};
  auto const nothing = [](std::string_view) { return std::string{}; };
  CHECK(test::message<FileError>([&] { trainer.load_weights(path, nothing); }) ==
        "'" + path +
            "': tensors '0.weight', '0.bias', '3.weight' and 1 more are missing; '0.weight', "
            "'0.bias', '3.weight' and 1 more of the file are left out by a name of \"\"");
  CHECK(test::message<FileError>([&] {
          trainer.load_weights(path, {.rename = {{"3.bias", ""}}});
        }) ==
        "'" + path +
            "': tensor '3.bias' is missing; '3.bias' of the file is left out by a name of \"\"");
  std::string const deep = changed(folder, path, [](auto& tensors) {
    for (TensorView& t : tensors) {
      t.name = "net." + t.name;
    }
  });
  trainer.load_weights(deep, {.rename = {{"net", ""}}});
  Plain source{with(Adam{})};
  source.load(path);
  CHECK(test::values_of(trainer.parameters()) == test::values_of(source.parameters()));
}

TEST_CASE("load() of an exported model says that it is no checkpoint") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("model");
  Plain{with(Adam{})}.export_model(path);
  CHECK(contains(refusal(path),
                 "this is no checkpoint but a model: it has no step, epoch and seed "
                 "to go on from; load_weights() reads the parameters"));
}

TEST_CASE("a tensor of a type that is not known is passed over, and named where it is wanted") {
  test::TemporaryFolder const folder;
  Plain const source{with(Sgd{}, 3)};
  std::string const path = folder.file("newer");
  write_as<float>(path, Dtype::F32, source);
  std::string const known = changed(folder, path, [](auto& tensors) {
    tensors.push_back(tensors.front());
    tensors.back().name = "scales";
  });
  auto const of_newer_type = [&](std::string const& from, std::string const& name) {
    Safetensors const file = Safetensors::read(from);
    write_safetensors(path, file.tensors());  // without checksums
    std::string bytes = test::content(path);
    std::string const field = "\"" + name + "\":{\"dtype\":\"";
    bytes.replace(bytes.find(field) + field.size(), 3, "C64");
    test::put(path, bytes);
  };
  Plain trainer{with(Sgd{}, 2)};
  of_newer_type(known, "scales");
  CHECK(trainer.load_weights(path) == std::vector<std::string>{"scales"});
  CHECK(test::values_of(trainer.parameters(1)) == test::values_of(source.parameters()));
  of_newer_type(known, "0.bias");
  CHECK(contains(test::message<FileError>([&] { trainer.load_weights(path); }),
                 "tensor '0.bias' is of C64, but weights are of F16, BF16, F32 or F64"));
  of_newer_type(saved(folder, Adam{}), "0.bias");
  CHECK(contains(refusal(path), "tensor '0.bias' is (C64 2), but this trainer wants (F32 2)"));
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
