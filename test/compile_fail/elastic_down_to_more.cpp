// SPDX-License-Identifier: Apache-2.0
// expect-error: DownTo stands behind one
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<DataParallel<2>, DownTo<3>>;
#else
using Plan = Elastic<DataParallel<2>, DownTo<1>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
