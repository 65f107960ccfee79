// SPDX-License-Identifier: Apache-2.0
// expect-error: Use<Tag>: no Let<Tag> stands before it
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

struct Query;
struct Memory;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<8>,
                     Sequential<Linear<8>, Let<Query>, ReLU, Concat<Sequential<>, Use<Memory>>>> {};
#else
struct Net : Network<Vector<8>,
                     Sequential<Linear<8>, Let<Memory>, ReLU, Concat<Sequential<>, Use<Memory>>>> {
};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
