// SPDX-License-Identifier: Apache-2.0
// What generate() writes is what the network, given the whole text at every token, would write.

#include <written_text.hpp>

namespace tandem {
namespace generated_text_test {

using test::written::check;
using test::written::vocabulary;
using test::written::window;

TEST_CASE("on one device, with keys and values carried") { check<SingleDevice<>>(); }

TEST_CASE("under strategies of several devices") {
  check<DataParallel<2>>();
  check<Pipeline<OneFOneB, 2, Split<3>, Split<3>>>();
}

TEST_CASE("under two models, and in an interleaved pipeline") {
  check<CrossModelParallel<AverageGradients, Split<3>, Split<3>>>();
  check<Pipeline<Interleaved<2>, 2, Split<1>, Split<1>, Split<2>, Split<2>>>();
}

/// With weights of its own, rotary positions and key heads.
struct Free
    : Network<Tokens<window, vocabulary>,
              Sequential<Embedding<vocabulary, 16>,
                         Residual<Sequential<RmsNorm<>, Linear<32>, RotaryPositions<4, KeyHeads<2>>,
                                             Attention<4, Causal, KeyHeads<2>>, Linear<16>>>,
                         Residual<Sequential<LayerNorm<>, Linear<24>, SwiGlu, Linear<16>>>,
                         Vocabulary<vocabulary, Chunked<5>>>> {};

TEST_CASE("in a Chimera, whose devices have both ends") {
  check<Pipeline<Chimera, 2, Split<3>, Split<3>>>();
}

TEST_CASE("in asynchronous pipelines") {
  check<Pipeline<PipeDream, 1, Split<2>, Split<2>>, Free>();
  check<Pipeline<PipeDream2BW, 2, Split<2>, Split<2>>, Free>();
}

}  // namespace generated_text_test
}  // namespace tandem
