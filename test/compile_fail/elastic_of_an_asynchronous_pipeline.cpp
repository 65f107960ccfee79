// SPDX-License-Identifier: Apache-2.0
// expect-error: an asynchronous pipeline of another depth has another
#include <tandem/strategy/elastic/elastic.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Plan = Elastic<Pipeline<PipeDream2BW, 2, Split<2>, Split<2>>, SingleDevice<Microbatches<2>>>;
#else
using Plan = Elastic<Pipeline<OneFOneB, 2, Split<2>, Split<2>>, SingleDevice<Microbatches<2>>>;
#endif

int main() { return Plan::count > 0 ? 0 : 1; }
