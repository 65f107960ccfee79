// SPDX-License-Identifier: Apache-2.0
// expect-error: a dataset has `using Target = std::int32_t;` or float, `std::int64_t size()
#include <tandem/data/augment.hpp>
#include <tandem/data/tensor_dataset.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Data = Augmented<int, RandomFlip>;
#else
using Data = Augmented<TensorDataset<float>, RandomFlip>;
#endif

int main() { return sizeof(Data) > 0 ? 0 : 1; }
