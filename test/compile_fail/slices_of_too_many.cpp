// SPDX-License-Identifier: Apache-2.0
// expect-error: Slices<Count>: give a number from 1 to 1024
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using S = SingleDevice<Slices<1025>>;
#else
using S = SingleDevice<Slices<1024>>;
#endif

int main() { return S::batching.slices > 1 ? 0 : 1; }
