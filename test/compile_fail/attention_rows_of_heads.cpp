// SPDX-License-Identifier: Apache-2.0
// expect-error: the channels of a row must be a multiple of its heads
#include <tandem/graph/lower.hpp>
#include <tandem/layers/attention.hpp>

using namespace tandem;

template <int C>
struct Rows {
  static constexpr Shape shape = timed_shape(8, C);
};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Rows<16>, Sequential<Attention<4>>> {};
#else
struct Net : Network<Rows<12>, Sequential<Attention<4>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
