// SPDX-License-Identifier: Apache-2.0
// expect-only-error: this has two datasets: give data.train() to train, and data.test() to evaluate
// expect-lines: 12
#include <tandem/tandem.hpp>

#include <cstdio>

using namespace tandem;

struct Net : models::SmallCnn<10> {};

int main(int argc, char** argv) {
  FashionMnist const data{argv[argc - 1]};
  Trainer<Net, DataParallel<2>, Host> trainer{{.batch = 128}};
#ifdef TANDEM_COMPILE_FAIL
  auto const& images = data;
  auto const& others = data;
#else
  auto const& images = data.train();
  auto const& others = data.test();
#endif
  for (auto epoch : epochs(3)) {
    trainer.train(images, epoch);
    trainer.train(images, epoch, Progress{}, [](StepReport const&) {});
    trainer.train(images, epoch, [](StepReport const&) {});
  }
  trainer.check_dataset(others);
  std::fputs(trainer.confusion(others).table().c_str(), stdout);
  std::printf("%.4f %zu", trainer.evaluate(others).accuracy, trainer.predict(others).size());
  return 0;
}
