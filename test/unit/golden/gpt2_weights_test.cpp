// SPDX-License-Identifier: Apache-2.0
// Weights in GPT-2's files: what Hugging Face has saved is read, says what it says there, and comes
// back bit for bit, under strategies that cut the network; a file that does not fit changes
// nothing.

#include "golden.hpp"

#include <algorithm>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace gpt2_weights_test {

constexpr int vocabulary = 65;
struct Net : models::Gpt<vocabulary, 16, 32, 4, 2> {};
struct Erf : models::Gpt<vocabulary, 16, 32, 4, 2, Gelu, Percent<10>> {};

static_assert(detail::gpt2_blocks(graph<Net>) == 2);
static_assert(detail::gpt2_blocks(graph<Erf>) == 2);
static_assert(detail::gpt2_blocks(graph<models::Gpt2<NoBias>>) == 12);
static_assert(detail::gpt2_blocks(graph<models::SmallCnn<10>>) == 0);

using Double = BasicHost<Portable, Fp64>;
using test::golden_path;

template <class N = Net, class S = SingleDevice<>, class Backend = Double>
using TrainerOf = Trainer<N, S, Backend>;

TrainerOptions options(std::uint64_t seed = 1) {
  return {.batch = 4, .seed = seed, .threads_per_device = 1};
}

/// The logits behind the first @p rows tokens of each prompt.
template <class TrainerType>
std::vector<float> logits(TrainerType& trainer, std::vector<std::int32_t> const& prompt, int rows) {
  std::vector<std::int32_t> x;
  for (int s = 0; s < 2; ++s) {
    x.insert(x.end(), prompt.begin() + s * 12, prompt.begin() + s * 12 + rows);
  }
  std::vector<float> scores(2 * vocabulary);
  StepState const state{};
  trainer.workers().run([&](auto& rank) {
    using Batch = StepBatch<typename TrainerType::T, typename TrainerType::Target, std::int32_t>;
    return rank.forward(state,
                        Batch{.x = x.data(), .size = 2, .time = rows, .scores = scores.data()});
  });
  return scores;
}

template <class TrainerType>
void check_logits(TrainerType& trainer, char const* name) {
  test::Golden const golden{"gpt2_logits"};
  auto const prompt = golden.values<std::int32_t>("prompt");
  auto const wanted = golden.values(name);
  for (int const rows : {1, 5, 12}) {
    auto const own = logits(trainer, prompt, rows);
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t v = 0; v < vocabulary; ++v) {
        double const here = wanted[(s * 12 + static_cast<std::size_t>(rows) - 1) * vocabulary + v];
        REQUIRE(own[s * vocabulary + v] == doctest::Approx(here).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("a file of Hugging Face's says what it says there") {
  TrainerOf<> trainer{options()};
  load_gpt2(trainer, golden_path("gpt2_checkpoint"));
  check_logits(trainer, "logits");
  TrainerOf<> other{options(2)};
  load_gpt2(other, golden_path("gpt2_hub"));
  check_logits(other, "logits");
}

template <class S, class Backend = Double>
void check_under() {
  test::Watchdog const watchdog{"a GPT's weights under a strategy"};
  TrainerOf<Net, S, Backend> trainer{options()};
  load_gpt2(trainer, golden_path("gpt2_hub"));
  TrainerOf<Net, SingleDevice<>, Backend> one{options(2)};
  load_gpt2(one, golden_path("gpt2_checkpoint"));
  auto const wanted = one.parameters();
  for (int replica = 0; replica < S::ranks / S::devices; ++replica) {
    for (auto const& p : trainer.parameters(replica)) {
      auto const& same = wanted[static_cast<std::size_t>(p.index)].value;
      CHECK_MESSAGE(std::equal(p.value.begin(), p.value.end(), same.begin(), same.end()), p.name);
    }
  }
  test::TemporaryFolder const folder;
  std::string const path = folder.file("out.safetensors");
  export_gpt2(trainer, path);
  Safetensors const own = Safetensors::read(path);
  Safetensors const theirs = Safetensors::read(golden_path("gpt2_checkpoint"));
  CHECK(own.tensors().size() == theirs.tensors().size());
  CHECK(*own.find_metadata("format") == "pt");
  for (TensorView const& tensor : theirs.tensors()) {
    TensorView const& written = own.at(tensor.name);
    CHECK(written.shape == tensor.shape);
    if constexpr (std::is_same_v<Backend, Host>) {
      CHECK(std::ranges::equal(written.data, tensor.data));
    }
  }
}

TEST_CASE("under every strategy all devices get the weights, and the file comes back") {
  check_under<SingleDevice<>, Host>();
  check_under<Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<2>, Split<4>>>, Host>();
  check_under<CrossModelParallel<AverageWeights<>, Split<3>, Split<3>>>();
}

/// A tensor and its bytes.
struct Owned {
  TensorSpec spec;
  std::vector<std::byte> data;
};

/// A file like gpt2_hub, changed.
class Changed {
 public:
  Changed() {
    Safetensors const hub = Safetensors::read(golden_path("gpt2_hub"));
    for (TensorView const& t : hub.tensors()) {
      tensors.push_back({{t.name, t.dtype, t.shape}, {t.data.begin(), t.data.end()}});
    }
  }
  Owned& at(std::string const& name) {
    return *std::ranges::find(tensors, name, [](Owned const& t) { return t.spec.name; });
  }
  void erase(std::string const& end) {
    std::erase_if(tensors, [&](Owned const& t) { return t.spec.name.ends_with(end); });
  }
  [[nodiscard]] std::string write(test::TemporaryFolder const& folder) const {
    std::string const path = folder.file("changed.safetensors");
    std::vector<TensorView> views;
    for (Owned const& t : tensors) {
      views.push_back({t.spec.name, t.spec.dtype, t.spec.shape, t.data});
    }
    write_safetensors(path, views);
    return path;
  }

  std::vector<Owned> tensors;
};

TEST_CASE("nanoGPT's matrices are told by their shapes") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("nano.safetensors");
  TrainerOf<> one{options()};
  load_gpt2(one, golden_path("gpt2_checkpoint"));
  export_gpt2(one, path, Gpt2Layout::nano_gpt);
  Safetensors const file = Safetensors::read(path);
  CHECK(file.at("transformer.h.1.attn.c_attn.weight").shape == std::vector<std::int64_t>{96, 32});
  TrainerOf<> two{options(2)};
  load_gpt2(two, path);
  auto const wanted = one.parameters();
  for (auto const& p : two.parameters()) {
    auto const& same = wanted[static_cast<std::size_t>(p.index)].value;
    CHECK_MESSAGE(std::equal(p.value.begin(), p.value.end(), same.begin()), p.name);
  }
  check_logits(two, "logits");
}

template <class Stored>
void convert(Owned& tensor, Dtype dtype) {
  std::vector<float> values(tensor.data.size() / sizeof(float));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  std::vector<Stored> stored;
  for (float const value : values) {
    stored.push_back(static_cast<Stored>(value));
  }
  tensor.spec.dtype = dtype;
  tensor.data.resize(stored.size() * sizeof(Stored));
  std::memcpy(tensor.data.data(), stored.data(), tensor.data.size());
}

TEST_CASE("other floats are converted, and a repeated matrix of the words is one") {
  test::TemporaryFolder const folder;
  Changed file;
  file.tensors.push_back(file.at("wte.weight"));
  file.tensors.back().spec.name = "lm_head.weight";
  convert<double>(file.at("wpe.weight"), Dtype::F64);
  convert<Float16>(file.at("h.0.mlp.c_fc.weight"), Dtype::F16);
  convert<BFloat16>(file.at("h.1.ln_2.bias"), Dtype::BF16);
  TrainerOf<> exact{options()};
  TrainerOf<> trainer{options()};
  load_gpt2(exact, golden_path("gpt2_hub"));
  load_gpt2(trainer, file.write(folder));
  auto const wanted = exact.parameters();
  for (auto const& p : trainer.parameters()) {
    std::string const name =
        detail::gpt2_tensors(graph<Net>)[static_cast<std::size_t>(p.index)].name;
    auto const& same = wanted[static_cast<std::size_t>(p.index)].value;
    for (std::size_t i = 0; i < p.value.size(); ++i) {
      auto const here = static_cast<float>(same[i]);
      float const rounded = name == "h.0.mlp.c_fc.weight" ? static_cast<float>(Float16{here})
                            : name == "h.1.ln_2.bias"     ? static_cast<float>(BFloat16{here})
                                                          : here;
      REQUIRE_MESSAGE(static_cast<float>(p.value[i]) == rounded, name);
    }
  }
}

std::string without_path(std::string const& text, std::string const& path) {
  std::string const before = "'" + path + "': ";
  return text.starts_with(before) ? text.substr(before.size()) : text;
}

/// What a load says, after which nothing has changed.
std::string refusal(std::string const& path) {
  TrainerOf<> trainer{options()};
  std::vector<std::vector<double>> before;
  for (auto const& p : trainer.parameters()) {
    before.emplace_back(p.value.begin(), p.value.end());
  }
  std::string const text = test::message<FileError>([&] { load_gpt2(trainer, path); });
  for (auto const& p : trainer.parameters()) {
    auto const& same = before[static_cast<std::size_t>(p.index)];
    CHECK(std::equal(p.value.begin(), p.value.end(), same.begin()));
  }
  return without_path(text, path);
}

/// What is said where a network of another size wants a file.
template <class N>
std::string refusal_by(std::string const& path) {
  return without_path(test::message<FileError>([&] { detail::Gpt2File{path, graph<N>}; }), path);
}

TEST_CASE("a file of another size is refused by one sentence") {
  std::string const path = golden_path("gpt2_checkpoint");
  CHECK(refusal_by<models::Gpt<vocabulary, 16, 32, 4, 3>>(path) ==
        "the file's GPT-2 has 2 blocks, but this network 3");
  CHECK(refusal_by<models::Gpt<64, 16, 32, 4, 2>>(path) ==
        "tensor 'transformer.wte.weight' is (65 32), but this network wants (64 32)");
  CHECK(refusal_by<models::Gpt<vocabulary, 8, 32, 4, 2>>(path) ==
        "tensor 'transformer.wpe.weight' is (16 32), but this network wants (8 32)");
  CHECK(refusal_by<models::Gpt<vocabulary, 16, 32, 4, 2, NoBias>>(path) ==
        "tensor 'transformer.h.0.attn.c_attn.bias' has no place in this network; one without "
        "NoBias has biases");
}

TEST_CASE("a file at fault is refused by one sentence") {
  test::TemporaryFolder const folder;
  auto const said = [&](auto const& change) {
    Changed file;
    change(file);
    return refusal(file.write(folder));
  };
  CHECK(said([](Changed& f) { f.erase("wte.weight"); }) ==
        "there is no tensor 'transformer.wte.weight', nor 'wte.weight', so it is no GPT-2; "
        "load_weights() reads what export_model() has written");
  CHECK(said([](Changed& f) { f.erase("h.1.mlp.c_fc.bias"); }) ==
        "tensor 'h.1.mlp.c_fc.bias' is missing; a network with NoBias wants none");
  CHECK(said([](Changed& f) { f.erase("ln_f.weight"); }) == "tensor 'ln_f.weight' is missing");
  CHECK(said([](Changed& f) {
          f.at("h.1.mlp.c_proj.weight").spec.shape = {32, 128};
        }) == "tensor 'h.1.mlp.c_proj.weight' is (32 128), but this network wants (128 32)");
  CHECK(said([](Changed& f) { f.at("ln_f.bias").spec.dtype = Dtype::I32; }) ==
        "tensor 'ln_f.bias' is of I32, but weights are of F32, F16, BF16 or F64");
  CHECK(said([](Changed& f) {
          f.tensors.push_back(f.at("wte.weight"));
          f.tensors.back().spec.name = "lm_head.weight";
          f.tensors.back().data[5] ^= std::byte{1};
        }) ==
        "tensor 'lm_head.weight' is not 'wte.weight', but this network has one matrix for "
        "both");
  CHECK(said([](Changed& f) { f.at("h.0.ln_1.weight").spec.name = "h.0.ln\n1"; }) ==
        "tensor 'h.0.ln_1.weight' is missing");
  CHECK(said([](Changed& f) {
          f.tensors.push_back(f.at("ln_f.weight"));
          f.tensors.back().spec.name = "score.weight";
        }) == "tensor 'score.weight' has no place in this network");
  CHECK(refusal("/nowhere/model.safetensors") != "");
}

TEST_CASE("averages of the weights begin at a file's, and are what is written") {
  test::TemporaryFolder const folder;
  TrainerOptions with_average = options();
  with_average.average = {.decay = 0.5};
  TrainerOf<> trainer{with_average};
  std::vector<std::int32_t> const tokens(4 * 16, 3);
  trainer.step(tokens, tokens);
  load_gpt2(trainer, golden_path("gpt2_checkpoint"));
  TrainerOf<> plain{options()};
  load_gpt2(plain, golden_path("gpt2_checkpoint"));
  std::string const path = folder.file("averages.safetensors");
  export_gpt2(trainer, path);
  TrainerOf<> again{options()};
  load_gpt2(again, path);
  CHECK(test::difference(plain.parameters(), again.parameters(), test::Part::value).error == 0.0);

  trainer.step(tokens, tokens);
  export_gpt2(trainer, path);
  load_gpt2(again, path);
  auto const trained = trainer.parameters();
  auto const read = again.parameters();
  for (std::size_t p = 0; p < read.size(); ++p) {
    CHECK(std::ranges::equal(read[p].value, trained[p].average));
  }
  CHECK(test::difference(trained, read, test::Part::value).error > 0.0);
}

TEST_CASE("what is not finite is not written over a file") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("kept.safetensors");
  test::put(path, "kept");
  TrainerOf<> trainer{options()};
  std::vector<double> values(trainer.parameters()[2].value.size());
  values[7] = std::numeric_limits<double>::infinity();
  trainer.set_parameter(trainer.parameters()[2].name, values);
  CHECK(test::contains(test::message<FileError>([&] { export_gpt2(trainer, path); }),
                       "tensor 'transformer.h.0.ln_1.weight' is inf or nan at element 7"));
  CHECK(test::content(path) == "kept");
}

}  // namespace gpt2_weights_test
}  // namespace tandem
