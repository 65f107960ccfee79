// SPDX-License-Identifier: Apache-2.0
// expect-error: GroupNorm wants an image or a vector: LayerNorm and RmsNorm are for sequences
#include <tandem/graph/lower.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/group_norm.hpp>
#include <tandem/layers/layer_norm.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 50>, Sequential<Embedding<50, 8>, GroupNorm<2>>> {};
#else
struct Net : Network<Tokens<4, 50>, Sequential<Embedding<50, 8>, LayerNorm<>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
