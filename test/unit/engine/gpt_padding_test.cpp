// SPDX-License-Identifier: Apache-2.0
// Sequences with rows of padding behind them, where rows look at all of their sample.

#include <small_gpt.hpp>

namespace tandem {
namespace gpt_padding_test {

using Double = BasicHost<Portable, Fp64>;

struct Words : Embedding<test::gpt_words, 8> {};
/// Rows look at all of their sample.
struct Encoder
    : Network<Tokens<test::gpt_time, test::gpt_words>,
              Sequential<Words, Positions<>,
                         Residual<Sequential<LayerNorm<>, Linear<24>, Attention<2, Percent<20>>,
                                             Linear<8>, Dropout<Percent<20>>>>,
                         Vocabulary<test::gpt_words, Shares<Words>, Chunked<7>>>> {};

TEST_CASE("rows of padding are no keys, and change neither a mask nor a sum") {
  Trainer<Encoder, SingleDevice<Microbatches<4>>, Double> small{test::gpt_options()};
  Trainer<Encoder, SingleDevice<Microbatches<4>>, Double> padded{test::gpt_options()};
  for (int s = 1; s < 3; ++s) {
    StepResult const one = test::gpt_step(small, s);
    StepResult const other = test::gpt_step(padded, s, 7, 1);
    CHECK(std::fabs(one.loss - other.loss) <= 1e-13);
    CHECK(one.weight == other.weight);
  }
  CHECK(test::difference(small.parameters(), padded.parameters(), test::Part::value).error <=
        1e-12);
}

}  // namespace gpt_padding_test
}  // namespace tandem
