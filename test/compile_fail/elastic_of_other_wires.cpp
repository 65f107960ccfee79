// SPDX-License-Identifier: Apache-2.0
// expect-error: with Wire<E> in some only
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<DataParallel<2, Wire<BFloat16>>, SingleDevice<Microbatches<2>>>;
#else
using Plan = Elastic<DataParallel<2>, SingleDevice<Microbatches<2>>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
