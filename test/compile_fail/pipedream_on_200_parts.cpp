// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<asynchronous schedule, Count, ...>: give 127 parts or fewer
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/asynchronous_pipeline.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<PipeDream, 1, Auto<200>>;
#else
using S = Pipeline<PipeDream, 1, Auto<127>>;
#endif

int main() { return S::ranks > 0 && S::batching.microbatches > 0 ? 0 : 1; }
