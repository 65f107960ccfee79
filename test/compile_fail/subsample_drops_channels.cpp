// SPDX-License-Identifier: Apache-2.0
// expect-error: Subsample2d: a shortcut cannot drop channels
#include <tandem/graph/lower.hpp>
#include <tandem/layers/subsample2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Subsample2d<2, 2>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Subsample2d<4, 2>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
