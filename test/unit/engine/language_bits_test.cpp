// SPDX-License-Identifier: Apache-2.0
// A GPT, recurrent layers and a Gnmt, whose words are shared and whose encoder and attention are
// read on several stages, in float and reproducible mode: the bits of one device, whatever stands
// behind the ends of sentences.

#include <doctest/doctest.h>

#include <gpt_bits.hpp>
#include <small_gnmt.hpp>

namespace tandem {
namespace language_bits_test {

using Backend = BasicHost<Portable>;
using R = Reproducible<4>;
using One = test::TrainedGnmt<SingleDevice<Microbatches<4>, R>, Backend>;

inline constexpr auto placed = place<test::SmallGnmt>({{"0", 0}, {"5", 1}, {"11", 0}, {"12", 1}});

template <class S>
void check_bits(One const& one) {
  test::TrainedGnmt<S, Backend> const many{5};
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s << " on " << S::ranks << " ranks of " << S::devices);
    CHECK(one.results[s].loss == many.results[s].loss);
    CHECK(one.results[s].metric == many.results[s].metric);
    CHECK(one.results[s].gradient_norm == many.results[s].gradient_norm);
  }
  for (int replica = 0; replica < S::ranks / S::devices; ++replica) {
    CHECK(test::first_difference(many.trainer.parameters(replica), one.trainer.parameters()) == "");
  }
}

TEST_CASE("a GPT has the bits of one device") { test::check_gpt_bits<Backend>(); }

TEST_CASE("so have recurrent layers") { test::check_lstm_bits<Backend>(); }

TEST_CASE("a Gnmt has the bits of one device on replicas and cut between encoder and decoder") {
  One const one;
  check_bits<DataParallel<2, Microbatches<2>, R>>(one);
  check_bits<ModelParallel<Split<4>, Split<6>, Microbatches<4>, R>>(one);
  check_bits<ModelParallel<Placed<placed>, Microbatches<4>, R>>(one);
}

TEST_CASE("so it has where the encoder's rows pass a stage, and in two models") {
  One const one;
  check_bits<Pipeline<OneFOneB, 4, Split<4>, Split<2>, Split<2>, Split<2>, R>>(one);
  check_bits<Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<4>, Split<6>>>>(one);
  check_bits<CrossPipeline<4, AverageGradients, Split<4>, Split<6>, R>>(one);
}

TEST_CASE("a Gnmt learns what to say") {
  test::Watchdog const watchdog{"eighty steps of a Gnmt"};
  Trainer<test::FreeGnmt, SingleDevice<>, Backend> trainer{
      {.batch = 9,
       .optimizer = Adam{.learning_rate = 0.02F},
       .clip_norm = 5.0,
       .threads_per_device = 1}};
  double const first = test::gnmt_step(trainer, 0).loss;
  double last = first;
  for (int s = 0; s < 80; ++s) {
    last = test::gnmt_step(trainer, 0).loss;
  }
  CHECK(last < 0.7 * first);
}

}  // namespace language_bits_test
}  // namespace tandem
