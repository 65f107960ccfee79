// SPDX-License-Identifier: Apache-2.0
// expect-error: a dataset has `using Target = std::int32_t;` or float, `std::int64_t size()
#include <tandem/data/loader.hpp>
#include <tandem/data/tensor_dataset.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Data = int;
#else
using Data = TensorDataset<float>;
#endif

int main() { return sizeof(Loader<Data>) > 0 ? 0 : 1; }
