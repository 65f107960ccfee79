// SPDX-License-Identifier: Apache-2.0
// expect-error: this layer wants an image (C, H, W), but its input is a vector
#include <tandem/graph/lower.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/pool.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<Flatten, MaxPool2d<Kernel<2>>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<MaxPool2d<Kernel<2>>, Flatten>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
