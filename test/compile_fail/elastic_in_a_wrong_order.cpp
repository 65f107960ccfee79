// SPDX-License-Identifier: Apache-2.0
// expect-error: Elastic<Strategies...>: list them from the most devices to the fewest, one of
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<SingleDevice<Microbatches<2>>, DataParallel<2>>;
#else
using Plan = Elastic<DataParallel<2>, SingleDevice<Microbatches<2>>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
