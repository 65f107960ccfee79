// SPDX-License-Identifier: Apache-2.0
// expect-error: Elastic<Strategies...>: DataParallel<> goes on with any number of devices itself;
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<DataParallel<2>, DataParallel<>>;
#else
using Plan = Elastic<DataParallel<>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
