// SPDX-License-Identifier: Apache-2.0
// expect-error: Elastic<Strategies...>: give the strategies to train by, from the most devices to
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<>;
#else
using Plan = Elastic<DataParallel<2> >;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
