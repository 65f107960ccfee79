// SPDX-License-Identifier: Apache-2.0
// generate() where both ends of the model lie on each device, and where steps overlap.

#include <written_text.hpp>

namespace tandem {
namespace generated_text_chains_test {

using test::written::vocabulary;
using test::written::window;

/// With weights of its own, rotary positions and key heads.
struct Free
    : Network<Tokens<window, vocabulary>,
              Sequential<Embedding<vocabulary, 16>,
                         Residual<Sequential<RmsNorm<>, Linear<32>, RotaryPositions<4, KeyHeads<2>>,
                                             Attention<4, Causal, KeyHeads<2>>, Linear<16>>>,
                         Residual<Sequential<LayerNorm<>, Linear<24>, SwiGlu, Linear<16>>>,
                         Vocabulary<vocabulary, Chunked<5>>>> {};

TEST_CASE("in a Chimera, whose devices have both ends") {
  test::written::check<Pipeline<Chimera, 2, Split<3>, Split<3>>>();
}

TEST_CASE("in asynchronous pipelines") {
  test::written::check<Pipeline<PipeDream, 1, Split<2>, Split<2>>, Free>();
  test::written::check<Pipeline<PipeDream2BW, 2, Split<2>, Split<2>>, Free>();
}

}  // namespace generated_text_chains_test
}  // namespace tandem
