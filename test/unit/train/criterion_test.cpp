// SPDX-License-Identifier: Apache-2.0
// Attention and Vocabulary in a trainer: the criterion's losses are those of a layer written by
// hand, and lengths, masks of dropout and the divisor are the same on one device as on several.

#include <token_network.hpp>

#include <support/watchdog.hpp>

namespace tandem {
namespace criterion_test {

using Double = BasicHost<Portable, Fp64>;

template <class Criterion>
struct Net : Network<Tokens<test::longest, test::words>,
                     Sequential<test::Table, Repeat<4, test::Shift>, Criterion>> {};

/// One head of queries, keys and values of two numbers each.
struct Attending
    : Network<Tokens<test::longest, test::words>,
              Sequential<test::Table, test::Shift, Attention<1, Causal, Percent<20>>,
                         Vocabulary<test::words, Smoothing<Percent<10>>, Chunked<8>>>> {};

/// Loss and metric of four steps of several lengths of time.
template <class N, class S>
std::vector<double> losses() {
  test::Watchdog const watchdog{"four steps with a criterion"};
  Trainer<N, S, Double> trainer{{.batch = 10,
                                 .optimizer = Sgd{.learning_rate = 0.5F, .momentum = 0.9F},
                                 .threads_per_device = 1}};
  std::vector<double> list;
  for (int s = 0; s < 4; ++s) {
    test::TokenBatch const batch = test::token_batch(10 - s, test::longest - s % 3, s);
    auto const result =
        trainer.step(batch.x, batch.targets, {.time = batch.time, .lengths = batch.lengths});
    list.push_back(result.loss);
    list.push_back(result.metric);
  }
  return list;
}

void check_alike(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::fabs(a[i] - b[i]) <= 1e-12);
  }
}

TEST_CASE("Vocabulary trains as a criterion written by hand") {
  using S = SingleDevice<Microbatches<2>>;
  check_alike(losses<Net<Vocabulary<test::words, NoBias, Shares<test::Table>>>, S>(),
              losses<Net<test::Guess<test::Table>>, S>());
}

TEST_CASE("Attention and Vocabulary train alike on one device and on several") {
  auto const one = losses<Attending, SingleDevice<Microbatches<2>>>();
  check_alike(losses<Attending, DataParallel<2>>(), one);
  check_alike(losses<Attending, Pipeline<OneFOneB, 2, Split<2>, Split<2>>>(), one);
}

}  // namespace criterion_test
}  // namespace tandem
