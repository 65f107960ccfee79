// SPDX-License-Identifier: Apache-2.0
// expect-only-error: a dataset has `using Target = std::int32_t;` or float, `std::int64_t size()
// expect-lines: 12
#include <tandem/tandem.hpp>

#include <cstdint>
#include <span>

using namespace tandem;

struct Bars {
  using Target = std::int32_t;
  std::int64_t size() const { return 2000; }
  Shape shape() const { return image_shape(1, 8, 8); }
#ifndef TANDEM_COMPILE_FAIL
  int targets() const { return 1; }
#endif
  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const {
    x[0] = static_cast<float>(index);
    y[0] = 0;
  }
};

struct Net : Network<Image<1, 8, 8>, Sequential<Flatten, Linear<2>>> {};

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 50}};
  for (auto epoch : epochs(3)) {
    trainer.train(Bars{}, epoch);
  }
  return trainer.evaluate(Bars{}).accuracy > 0.5 ? 0 : 1;
}
