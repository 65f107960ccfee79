// SPDX-License-Identifier: Apache-2.0
// expect-error: Wire<E>: E must be BFloat16 or Float16
#include <tandem/strategy/types/data_parallel.hpp>

#ifdef TANDEM_COMPILE_FAIL
using Sent = float;
#else
using Sent = tandem::BFloat16;
#endif

int main() { return tandem::DataParallel<2, tandem::Wire<Sent>>::ranks == 2 ? 0 : 1; }
