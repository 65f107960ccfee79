// SPDX-License-Identifier: Apache-2.0
// expect-error: Elastic<Strategies...>: every argument must be a strategy, such as
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<DataParallel<2>, int>;
#else
using Plan = Elastic<DataParallel<2>, SingleDevice<Microbatches<2> > >;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
