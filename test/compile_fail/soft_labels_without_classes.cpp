// SPDX-License-Identifier: Apache-2.0
// expect-error: soft_labels(data, ...): this dataset does not say how many classes it has
#include <cstdint>
#include <vector>

#include <tandem/data/soft_labels.hpp>
#include <tandem/data/tensor_dataset.hpp>

using namespace tandem;

int main() {
  TensorDataset<std::int32_t> const data{vector_shape(1), {1.0F, 2.0F}, {0, 1}};
#ifdef TANDEM_COMPILE_FAIL
  auto const soft = soft_labels(data, Mixup{});
#else
  auto const soft = soft_labels<2>(data, Mixup{});
#endif
  return soft.size() == 2 ? 0 : 1;
}
