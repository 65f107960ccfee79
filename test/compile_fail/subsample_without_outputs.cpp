// SPDX-License-Identifier: Apache-2.0
// expect-error: Subsample2d<Out, Step>: give positive numbers
#include <tandem/graph/lower.hpp>
#include <tandem/layers/subsample2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Subsample2d<4, 0>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Subsample2d<4, 1>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
