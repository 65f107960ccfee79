// SPDX-License-Identifier: Apache-2.0
// expect-error: NpyDataset<T>: T must be std::int32_t (labels) or float (regression)
#include <tandem/data/npy_dataset.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Target = double;
#else
using Target = float;
#endif

int main() { return sizeof(NpyDataset<Target>) > 0 ? 0 : 1; }
