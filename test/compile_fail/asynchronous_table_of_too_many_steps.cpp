// SPDX-License-Identifier: Apache-2.0
// expect-error: asynchronous_table<S, Devices, Microbatches, Steps>(): the schedule has no order
// for
#include <tandem/schedule/orders/asynchronous_table.hpp>
#include <tandem/schedule/orders/pipedream.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
constexpr int steps = 256;
#else
constexpr int steps = 255;
#endif

int main() { return asynchronous_table<PipeDream, 2, 1, steps>().length[0] > 0 ? 0 : 1; }
