// SPDX-License-Identifier: Apache-2.0
// expect-error: rounding on the way changes the bits with the number of devices; leave one of the
// two out
#include <tandem/strategy/types/data_parallel.hpp>

#ifdef TANDEM_COMPILE_FAIL
using Strategy = tandem::DataParallel<2, tandem::Wire<tandem::Float16>, tandem::Reproducible<>>;
#else
using Strategy = tandem::DataParallel<2, tandem::Wire<tandem::Float16>>;
#endif

int main() { return Strategy::batching.replicas == 2 ? 0 : 1; }
