// SPDX-License-Identifier: Apache-2.0
// expect-error: Frozen<Body>: Body must be a layer
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Frozen<int>, Conv2d<4>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<Frozen<Conv2d<2>>, Conv2d<4>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
