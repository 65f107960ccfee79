// SPDX-License-Identifier: Apache-2.0
// translate() where both ends of the model lie on each device, where there are two models, and
// where steps overlap; and a language model's search.

#include <translated_text.hpp>

namespace tandem {
namespace translate_chains_test {

using test::translated::check;
using test::translated::Double;
using test::translated::longest;
using test::translated::vocabulary;

TEST_CASE("in a Chimera, and under two models") {
  check<Pipeline<Chimera, 2, Split<4>, Split<6>>>(8, {{.width = 3}});
  check<CrossModelParallel<AverageGradients, Split<4>, Split<6>>>(8, {{.width = 3}});
}

/// With words of its own on each device.
struct Apart : models::Gnmt<vocabulary, 5, 3, longest, models::OwnWords> {};

TEST_CASE("in an asynchronous pipeline") {
  check<Pipeline<PipeDream, 1, Split<4>, Split<6>>, Double, Apart>(6, {{.width = 3}});
}

/// A language model of all that carries rows.
struct Writes
    : Network<Tokens<longest + 4, vocabulary>,
              Sequential<Embedding<vocabulary, 8>, Positions<>,
                         Residual<Sequential<LayerNorm<>, Linear<24>, Attention<2, Causal>>>,
                         Lstm<9, Projection<5>>, Gru<7>, Vocabulary<vocabulary, Chunked<5>>>> {};

TEST_CASE("prompts are written on, of any length and several at a time") {
  check<SingleDevice<>, Double, Writes>(9, {{.width = 3, .tokens = 4}, {.width = 1, .tokens = 5}});
  check<Pipeline<OneFOneB, 2, Split<3>, Split<3>>, Double, Writes>(8, {{.width = 2, .tokens = 4}});
}

}  // namespace translate_chains_test
}  // namespace tandem
