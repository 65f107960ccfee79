// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Pipeline<asynchronous schedule, Count, ...>: include
#include <tandem/schedule/orders/pipedream.hpp>
#ifdef TANDEM_COMPILE_FAIL
#include <tandem/strategy/types/pipeline.hpp>
#else
#include <tandem/strategy/types/asynchronous_pipeline.hpp>
#endif

using namespace tandem;

int main() { return Pipeline<PipeDream, 1, Split<1>, Split<1>>::ranks == 2 ? 0 : 1; }
