// SPDX-License-Identifier: Apache-2.0
// expect-error: Residual: body and shortcut must give the same shape
#include <tandem/graph/lower.hpp>
#include <tandem/layers/conv2d.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Residual<Conv2d<4>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Residual<Conv2d<4>, Conv2d<4>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
