// SPDX-License-Identifier: Apache-2.0
// Inference alone: the bits of a trainer's prediction, from its files and its memory, of any number
// of samples, and no memory for gradients.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/onnx.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace predictor_test {

using namespace std::string_literals;
using test::contains;
constexpr int samples = 29;
auto const data = test::dataset(image_shape(3, 8, 8), 5, samples);
test::Samples<float> const own{image_shape(3, 8, 8), 5, samples};

using Tiny = Predictor<test::TinyNet, Host>;
using TinyTrainer = Trainer<test::TinyNet, SingleDevice<>, Host>;

TrainerOptions options(WeightAverage average = {}) {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
          .average = average,
          .threads_per_device = 1};
}

TEST_CASE("a predictor gives a trainer's outputs, bit for bit, whatever the number of samples") {
  test::Watchdog const watchdog{"prediction"};
  test::TemporaryFolder const folder;
  TinyTrainer trainer{options()};
  trainer.train(data, 0);
  trainer.save(folder.file("run"));
  trainer.export_model(folder.file("model"));
  std::vector<float> const wanted = trainer.predict(data);

  Tiny taken{{.batch = 8, .threads = 1}};
  taken.take(trainer);
  CHECK(taken.predict(data) == wanted);
  for (int const batch : {1, 8, 40}) {
    Tiny predictor{folder.file(batch == 8 ? "model" : "run"), {.batch = batch, .threads = 1}};
    CHECK(predictor.predict(data) == wanted);
    CHECK(predictor.predict(own.x) == wanted);
    std::vector<float> some(3 * 5);
    predictor.predict(std::span{own.x}.first(3 * 192), std::span{some});
    CHECK(std::equal(some.begin(), some.end(), wanted.begin()));
    CHECK(predictor.predict({}).empty());
  }
}

TEST_CASE("a predictor takes other names, with a choice of the model or without") {
  test::TemporaryFolder const folder;
  TinyTrainer trainer{options()};
  std::string const path = folder.file("model");
  trainer.export_model(path);
  std::vector<float> const wanted = trainer.predict(data);
  Safetensors const file = Safetensors::read(path);
  std::vector<TensorView> tensors = file.tensors();
  for (TensorView& tensor : tensors) {
    tensor.name = "module." + tensor.name;
  }
  write_safetensors(folder.file("named"), tensors);
  auto const behind = [](std::string_view name) { return std::string{name.substr(7)}; };
  for (int way = 0; way < 4; ++way) {
    Tiny predictor{{.batch = 8, .threads = 1}};
    std::string const named = folder.file("named");
    way == 0   ? predictor.load(named, {.rename = {{"module.", ""}}})
    : way == 1 ? predictor.load(named, WhichModel::first, {.prefix = "module."})
    : way == 2 ? predictor.load(named, behind)
               : predictor.load(named, WeightNames{.prefix = "module."});
    CHECK(predictor.predict(data) == wanted);
  }
  Tiny predictor{{.batch = 8, .threads = 1}};
  CHECK(contains(test::message<FileError>([&] { predictor.load(folder.file("named")); }),
                 "give {.prefix = \"module.\"} after the path"));
}

TEST_CASE("a predictor has no memory for what only training needs") {
  TinyTrainer trainer{options({.decay = 0.9})};
  Tiny predictor{{.batch = 8, .threads = 1}};
  MemoryReport const trains = trainer.memory();
  MemoryReport const predicts = predictor.memory();
  CHECK(predicts.parameters == trains.parameters);
  CHECK(predicts.gradients == 0);
  CHECK(predicts.optimizer_state == 0);
  CHECK(predicts.kept == 8 * 5 * 4 + 32);  // the result alone, a multiple of 64 bytes
  CHECK(predicts.kept + predicts.transient < (trains.kept + trains.transient) / 2);
}

TEST_CASE("of averages over steps a predictor takes what it is asked for") {
  test::Watchdog const watchdog{"prediction"};
  test::TemporaryFolder const folder;
  TinyTrainer trainer{options({.decay = 0.9})};
  Tiny predictor{{.batch = 8, .threads = 1}};
  predictor.take(trainer);
  CHECK(predictor.predict(data) == trainer.predict(data));  // there is no average before a step
  trainer.train(data, 0);
  trainer.save(folder.file("run"));
  for (WhichModel const which : {WhichModel::average, WhichModel::first}) {
    std::vector<float> const wanted = trainer.predict(data, which);
    predictor.load(folder.file("run"), which);
    CHECK(predictor.predict(data) == wanted);
    predictor.load(folder.file("run"));
    predictor.take(trainer, which);
    CHECK(predictor.predict(data) == wanted);
  }
  CHECK(trainer.predict(data) != trainer.predict(data, WhichModel::first));
}

TEST_CASE("a predictor takes another precision, and what it takes is rounded once") {
  using Double = Predictor<test::PlainNet, BasicHost<Portable, Fp64>>;
  test::TemporaryFolder const folder;
  Trainer<test::PlainNet, SingleDevice<>, BasicHost<Portable, Fp64>> trainer{{.batch = 4}};
  trainer.export_model(folder.file("model"));
  Predictor<test::PlainNet, Host> single{folder.file("model")};
  Predictor<test::PlainNet, Host> taken;
  taken.take(trainer);
  CHECK(test::values_of(single.parameters()) == test::values_of(taken.parameters()));
  CHECK(single.parameters()[0].value[1] == static_cast<float>(trainer.parameters()[0].value[1]));
  std::vector<double> const x(32, 0.5);
  std::vector<float> const rounded(32, 0.5F);
  std::vector<double> const exact = Double{folder.file("model")}.predict(x);
  std::vector<float> const near = single.predict(rounded);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CHECK(near[i] == doctest::Approx(exact[i]).epsilon(1e-5));
  }
}

/// Sums over the rows that count, and rows behind.
struct Rows : Network<Tokens<6, 9>, Sequential<Embedding<9, 4>, LayerNorm<>, Linear<2>>> {};
struct Pooled : Network<Tokens<6, 9>, Sequential<Embedding<9, 6>, Attention<1>, MeanOverTime>> {};

/// Parameters by way of a file, too: predict() wants a model that was loaded.
template <class P>
void give_numbers(P& predictor) {
  test::TemporaryFolder const folder;
  for (auto const& p : predictor.parameters()) {
    std::vector<float> values(p.value.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0.1F * static_cast<float>((i * 7 + 3) % 11) - 0.5F;
    }
    predictor.set_parameter(p.name, values);
  }
  save_parameters(folder.file("numbers"), predictor.parameters());
  predictor.load(folder.file("numbers"));
}

std::vector<std::int32_t> tokens(int count, int limit) {
  std::vector<std::int32_t> list;
  for (int i = 0; i < count; ++i) {
    list.push_back((i * 5 + i / 3) % limit);
  }
  return list;
}

TEST_CASE("sequences have the rows that are given, and what stands behind their ends is not read") {
  Predictor<Rows, Host> predictor{{.batch = 2}};
  give_numbers(predictor);
  std::vector<std::int32_t> x = tokens(3 * 6, 9);
  std::vector<float> const whole = predictor.predict(x);
  REQUIRE(whole.size() == 3 * 6 * 2);
  std::vector<std::int32_t> cut;
  for (int s = 0; s < 3; ++s) {
    cut.insert(cut.end(), x.begin() + 6 * s, x.begin() + 6 * s + 4);
  }
  std::vector<float> const four = predictor.predict(cut, {.time = 4});
  REQUIRE(four.size() == 3 * 4 * 2);
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(std::equal(four.begin() + 8 * s, four.begin() + 8 * s + 8, whole.begin() + 12 * s));
  }

  Predictor<Pooled, Host> pooled{{.batch = 2}};
  give_numbers(pooled);
  std::vector<std::int32_t> const lengths{2, 6, 3};
  std::vector<float> const wanted = pooled.predict(x, {.lengths = lengths});
  x[5] = x[15] = x[17] = 8;
  CHECK(pooled.predict(x, {.lengths = lengths}) == wanted);
  CHECK(pooled.predict(x) != wanted);
  std::vector<float> const first = pooled.predict(std::span{x}.first(2), {.time = 2});
  CHECK(std::equal(first.begin(), first.end(), wanted.begin()));
}

TEST_CASE("a language model writes as its trainer does, and its logits are of each last row") {
  test::Watchdog const watchdog{"generation"};
  test::TrainedGpt<SingleDevice<>, Host> trained;
  Predictor<test::SmallGpt, Host> predictor{{.threads = 1}};
  predictor.take(trained.trainer);
  std::vector<std::int32_t> const prompt{1, 2, 3};
  GenerateOptions const wanted{.tokens = 12, .seed = 4};
  CHECK(predictor.generate(prompt, wanted) == trained.trainer.generate(prompt, wanted));

  std::vector<std::int32_t> const x{1, 2, 3, 0, 7, 5, 0, 0};
  std::vector<std::int32_t> const lengths{3, 2};
  std::vector<float> const logits = predictor.predict(x, {.time = 4, .lengths = lengths});
  REQUIRE(logits.size() == 2 * test::gpt_words);
  auto const next = predictor.generate(prompt, {.tokens = 1, .temperature = 0.0});
  CHECK(std::max_element(logits.begin(), logits.begin() + test::gpt_words) - logits.begin() ==
        next[0]);
  std::vector<std::int32_t> const second{7, 5};
  std::vector<float> const alone = predictor.predict(second, {.time = 2});
  CHECK(std::equal(alone.begin(), alone.end(), logits.begin() + test::gpt_words));
}

TEST_CASE(
    "a trainer and a predictor of it export one ONNX file, averages in place of the weights") {
  test::TemporaryFolder const folder;
  TinyTrainer trainer{options({.decay = 0.9})};
  trainer.train(data, 0);
  auto const exported = [&](auto const& source, WhichModel which = WhichModel::average) {
    export_onnx(source, folder.file("net.onnx"), which);
    return test::content(folder.file("net.onnx"));
  };
  Tiny predictor{{.batch = 1, .threads = 1}};
  std::string texts[2];
  for (WhichModel const which : {WhichModel::average, WhichModel::first}) {
    predictor.take(trainer, which);
    std::string& text = texts[which == WhichModel::average ? 0 : 1];
    text = exported(trainer, which);
    CHECK(text == exported(predictor));
    CHECK(contains(text, "BatchNormalization"));
    CHECK(contains(text, "8.weight"));
    CHECK(text.starts_with("\x08\x08\x12\x06tandem\x3A"));  // IR version 8, the producer
    CHECK(text.ends_with("\x42\x04\x0A\x00\x10\x11"s));     // opset 17 of the standard domain
  }
  CHECK(texts[0] != texts[1]);
  CHECK(texts[0].size() == texts[1].size());
  CHECK_THROWS_AS(export_onnx<test::TinyNet>(trainer, folder.file("none/net.onnx")), FileError);
}

TEST_CASE("no ONNX file has 2 GiB, and protobuf's numbers have several bytes") {
  CHECK(contains(
      test::message<FileError>([] { detail::check_onnx_size("x", std::int64_t{1} << 31); }),
      "'x': the model has 2147483648 bytes or more, but an ONNX file has less than 2"));
  CHECK_NOTHROW(detail::check_onnx_size("x", (std::int64_t{1} << 31) - 1));
  detail::Protobuf message;
  message.integer(1, 300).integer(16, -1).number(2, 1.0F);
  CHECK(message.bytes() ==
        "\x08\xAC\x02\x80\x01\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01\x15\x00\x00\x80\x3F"s);
}

TEST_CASE("a predictor says what it wants") {
  Tiny predictor{{.batch = 8, .threads = 1}};
  auto const said = [](auto const& f) { return test::message<ContractError>(f); };
  CHECK(contains(said([&] { predictor.predict(data); }),
                 "it has no parameters yet: give load(path), or take(trainer)"));
  predictor.take(TinyTrainer{options()});
  CHECK(contains(said([&] { predictor.predict(std::span{own.x}.first(191)); }),
                 "predict(x): x must be whole samples"));
  std::vector<float> little(4);
  CHECK(contains(said([&] { predictor.predict(std::span{own.x}.first(192), std::span{little}); }),
                 "outputs must have room"));
  CHECK(contains(said([&] { predictor.predict(test::dataset(image_shape(3, 8, 9), 5, 2)); }),
                 "the dataset has samples of 3x8x9, but the network takes 3x8x8"));
  CHECK(contains(said([] { Tiny{PredictorOptions{.batch = 0}}; }), ".batch must be 1 or more"));
  Predictor<Rows, Host> rows;
  give_numbers(rows);
  std::vector<std::int32_t> const wrong{1, 9};
  CHECK(contains(said([&] { rows.predict(wrong, {.time = 2}); }),
                 "token 9 of sample 0 of the batch, position 1, is out of range"));
  Predictor<Rows, Host> one_by_one{{.batch = 1}};
  give_numbers(one_by_one);
  CHECK(contains(said([&] { one_by_one.predict(wrong, {.time = 1}); }),
                 "token 9 of sample 1 of the batch, position 0, is out of range"));
  std::vector<std::int32_t> const lengths{3};
  CHECK(contains(said([&] { rows.predict(std::span{wrong}, {.time = 2, .lengths = lengths}); }),
                 "each of .lengths must be in [1, time]"));
}

}  // namespace predictor_test
}  // namespace tandem
