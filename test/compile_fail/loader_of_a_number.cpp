// SPDX-License-Identifier: Apache-2.0
// expect-error: Loader<D, Scalar>: D must be a Dataset
#include <tandem/data/loader.hpp>
#include <tandem/data/tensor_dataset.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Data = int;
#else
using Data = TensorDataset<float>;
#endif

int main() { return sizeof(Loader<Data>) > 0 ? 0 : 1; }
