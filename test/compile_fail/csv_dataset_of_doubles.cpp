// SPDX-License-Identifier: Apache-2.0
// expect-error: CsvDataset<T>: T must be std::int32_t (labels) or float (regression)
#include <tandem/data/csv_dataset.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Target = double;
#else
using Target = float;
#endif

int main() { return sizeof(CsvDataset<Target>) > 0 ? 0 : 1; }
