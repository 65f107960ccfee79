// SPDX-License-Identifier: Apache-2.0
// expect-error: Hybrid<DataParallel<>, DataParallel<N>, ...>: replicas multiply, and those of
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Hybrid<DataParallel<>, DataParallel<2>, ModelParallel<Auto<2>>>;
#else
using S = Hybrid<DataParallel<>, ModelParallel<Auto<2>>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
