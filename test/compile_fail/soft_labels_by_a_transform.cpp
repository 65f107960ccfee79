// SPDX-License-Identifier: Apache-2.0
// expect-error: soft_labels(data, ...): what follows the data must be Mixup{} or CutMix{}
#include <cstdint>
#include <vector>

#include <tandem/data/soft_labels.hpp>
#include <tandem/data/tensor_dataset.hpp>
#include <tandem/data/transform.hpp>

using namespace tandem;

int main() {
  TensorDataset<std::int32_t> const data{image_shape(1, 1, 1), {1.0F, 2.0F}, {0, 1}};
#ifdef TANDEM_COMPILE_FAIL
  auto const soft = soft_labels<2>(data, RandomFlip{});
#else
  auto const soft = soft_labels<2>(data, CutMix{});
#endif
  return soft.size() == 2 ? 0 : 1;
}
