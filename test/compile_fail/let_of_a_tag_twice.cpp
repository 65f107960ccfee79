// SPDX-License-Identifier: Apache-2.0
// expect-error: Let<Tag>: this tag has named a value before
#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

struct Memory;
struct Part : Sequential<Linear<8>, Let<Memory>> {};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<8>, Sequential<Repeat<2, Part>, Residual<Use<Memory>>>> {};
#else
struct Net : Network<Vector<8>, Sequential<Repeat<1, Part>, Residual<Use<Memory>>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
