// SPDX-License-Identifier: Apache-2.0
// expect-error: Linear wants a vector: put GlobalAvgPool or Flatten before it
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/linear.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<ReLU, Linear<10>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ReLU, Flatten, Linear<10>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
