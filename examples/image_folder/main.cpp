// Images in folders, from files to a model for others: augmentation, one cycle of the learning
// rate, early stopping, a log, a confusion matrix, ONNX. Of Fashion-MNIST:
//   examples/image_folder/fashion_png.py png && image_folder png [epochs, default 15]

#include <tandem/images.hpp>
#include <tandem/onnx.hpp>
#include <tandem/tandem.hpp>

#include <cstdio>
#include <string>

#include "../number.hpp"

namespace td = tandem;

template <int Channels>
using Conv = td::Sequential<td::Conv2d<Channels, td::Kernel<3>, td::Padding<1>>, td::BatchNorm2d<>>;
using Pool = td::MaxPool2d<td::Kernel<2>>;

using In = td::Image<1, 28, 28>;
struct Net : td::Network<In, td::Sequential<Conv<32>, td::ReLU, Pool, Conv<64>, td::ReLU, Pool,
                                            td::Flatten, td::Dropout<td::Percent<30>>,
                                            td::Linear<128>, td::ReLU, td::Linear<10>>> {};

int main(int argc, char** argv) try {
  std::string const folder = argc > 1 ? argv[1] : "png";
  int const most = argc > 2 ? number_in(argv[2], 1, 1000, "the number of epochs") : 15;
  int const batch = 128;
  td::ImageFolder<In> const train{folder + "/train", {.keep = true}};
  auto const& names = train.class_names();
  td::ImageFolder<In> const test{folder + "/test", {.keep = true, .class_names = names}};
  std::printf("%lld images of %d classes\n", static_cast<long long>(train.size()), train.classes());
  std::int64_t const steps = most * ((train.size() + batch - 1) / batch);
  td::Trainer<Net, td::DataParallel<2>, td::Host> trainer{
      {.batch = batch,
       .optimizer = td::AdamW{.learning_rate = 4e-3F},
       .schedule = td::OneCycle{.steps = steps},
       .loader_threads = 2}};
  td::StepLog log{"run.jsonl"};
  td::Plateau stalls = trainer.plateau({.patience = 3});
  for (auto epoch : trainer.epochs(most)) {
    trainer.train(td::augment(train, td::RandomCrop{2}, td::RandomFlip{}), epoch, td::Progress{},
                  log);
    td::Evaluation const result = trainer.evaluate(test);
    log.evaluation(trainer.position(), result);
    if (stalls(result.loss)) {
      break;
    }
    if (stalls.improved()) {
      trainer.save("best.safetensors");
    }
  }
  trainer.load("best.safetensors");
  td::Confusion const confusion = trainer.confusion(test);
  std::printf("%s\n%s", confusion.table(names).c_str(), confusion.report(names).c_str());
  td::export_onnx(trainer, "classifier.onnx");
} catch (std::exception const& error) {
  std::fprintf(stderr, "image_folder: %s\n", error.what());
  return 1;
}
