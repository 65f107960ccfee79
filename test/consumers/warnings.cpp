// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a user writes, compiled with the user's warnings and tandem's headers by plain -I: trainers
/// under several strategies, the optimizers, logs, and every door.

#include <tandem/describe.hpp>
#include <tandem/images.hpp>
#include <tandem/measure.hpp>
#include <tandem/onnx.hpp>
#include <tandem/plan.hpp>
#include <tandem/schedules.hpp>
#include <tandem/tables.hpp>
#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace td = tandem;

namespace {

struct Net : td::models::SmallCnn<10> {};
struct Together
    : td::Network<td::Image<3, 8, 8>,
                  td::Sequential<td::SyncBatchNorm2d<>, td::GlobalAvgPool, td::Linear<5>>> {};
struct Writer : td::models::Gpt<17, 8, 16, 2, 2> {};

td::TensorDataset<std::int32_t> images() {
  return {td::image_shape(1, 28, 28), std::vector<float>(64 * 28 * 28),
          std::vector<std::int32_t>(64)};
}

template <class Strategy>
void train(td::Optimizer const& optimizer) {
  td::Trainer<Net, Strategy, td::Host> trainer{
      {.batch = 32, .optimizer = optimizer, .schedule = td::Cosine{.steps = 4}, .clip_norm = 1.0}};
  td::TensorDataset<std::int32_t> const data = images();
  td::StepLog log{"run.jsonl"};
  for (auto epoch : td::epochs(2)) {
    trainer.train(td::augment(data, td::RandomCrop{.padding = 2}, td::RandomFlip{}), epoch,
                  td::Progress{}, log);
    log.evaluation(trainer.position(), trainer.evaluate(data));
  }
  static_cast<void>(trainer.predict(data));
  trainer.save("run.safetensors");
  trainer.load("run.safetensors");
  trainer.export_model("model.safetensors");
}

void write(std::string const& text) {
  td::Characters const tokenizer{text};
  auto const tokens = tokenizer.encode(text);
  td::TextStream const windows{td::TokenSpan{tokens, tokenizer.size()}, 8};
  td::Trainer<Writer, td::SingleDevice<>, td::Host> trainer{{.batch = 4}};
  trainer.train(windows, td::Epoch{0});
  static_cast<void>(trainer.generate(tokens, {.tokens = 4, .top_k = 3}));
}

}  // namespace

int main() {
  using Halves = td::ModelParallel<td::Split<5>, td::Split<8>, td::Microbatches<4>>;
  train<td::SingleDevice<>>(td::Sgd{.momentum = 0.9F});
  train<td::DataParallel<2>>(td::AdamW{});
  train<td::Hybrid<td::DataParallel<2>, Halves>>(td::Adam{});
  train<td::Pipeline<td::ZeroBubbleH1, 4, td::Split<5>, td::Split<8>>>(td::Sgd{});
  train<td::CrossModelParallel<td::AverageWeights<8>, td::Split<5>, td::Split<8>>>(td::Sgd{});
  td::Trainer<Together, td::DataParallel<2>, td::Host>{{.batch = 8}}.save("run.safetensors");
  write("a text of seventeen letters at most");
}
