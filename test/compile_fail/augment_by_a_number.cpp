// SPDX-License-Identifier: Apache-2.0
// expect-error: Augmented<D, Ts...>: every T must be a Transform
#include <tandem/data/augment.hpp>
#include <tandem/data/tensor_dataset.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Data = Augmented<TensorDataset<float>, int>;
#else
using Data = Augmented<TensorDataset<float>, RandomFlip>;
#endif

int main() { return sizeof(Data) > 0 ? 0 : 1; }
