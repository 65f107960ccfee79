// SPDX-License-Identifier: Apache-2.0
// expect-error: microbatches and leaves can be dealt to Least; list the strategies otherwise
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<DataParallel<6, Reproducible<>>, DownTo<2>>;
#else
using Plan = Elastic<DataParallel<6, Reproducible<>>, DownTo<3>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
