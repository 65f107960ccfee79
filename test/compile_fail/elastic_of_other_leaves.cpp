// SPDX-License-Identifier: Apache-2.0
// expect-error: Elastic<Strategies...>: all must be Reproducible with the same leaves, or none:
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan =
    Elastic<DataParallel<4, Reproducible<>>, DataParallel<2, Microbatches<2>, Reproducible<2>>>;
#else
using Plan =
    Elastic<DataParallel<4, Reproducible<>>, DataParallel<2, Microbatches<2>, Reproducible<4>>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
