// SPDX-License-Identifier: Apache-2.0
// Parts of a pipeline that devices share: the numbers of one device, and which ranks meet.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <small_gpt.hpp>

namespace tandem {
namespace tensor_parallel_pipeline_test {

using Double = BasicHost<Portable, Fp64>;
// With slices of the words, which the first part and the last share.
using Ends = Hybrid<Pipeline<OneFOneB, 4, Split<3>, Split<3>>, TensorParallel<2, SplitInputs<0>>>;
template <class Schedule, class... Options>
using Replicas = Hybrid<DataParallel<2, Options...>, Pipeline<Schedule, 2, Split<3>, Split<3>>,
                        TensorParallel<2>>;

template <class S>
void check_as_one_device() {
  static test::TrainedGpt<SingleDevice<Microbatches<4>>, Double> const one;
  test::TrainedGpt<S, Double> const many{5};
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one.results[s].loss - many.results[s].loss) <= 1e-12);
    CHECK(std::fabs(one.results[s].gradient_norm - many.results[s].gradient_norm) <= 1e-12);
    CHECK(one.results[s].weight == many.results[s].weight);
  }
  for (int line = 0; line < S::ranks / S::devices; ++line) {
    test::Difference const off = test::difference(many.trainer.parameters(line),
                                                  one.trainer.parameters(), test::Part::value);
    INFO("line " << line << ": " << off.name << " is off by " << off.error);
    CHECK(off.error <= 1e-12);
  }
}

TEST_CASE("parts of a pipeline that devices share train as one device does") {
  check_as_one_device<Ends>();
}

TEST_CASE("so do replicas of one whose gradients are computed apart, each rank keeping a part") {
  check_as_one_device<Replicas<ZeroBubbleH1, BucketBytes<256, 512>, ShardedGradients>>();
}

TEST_CASE("so do those that keep a part of their parameters") {
  check_as_one_device<Replicas<OneFOneB, BucketBytes<256, 512>, ShardedParameters>>();
}

// What goes from part to part is whole.
TEST_CASE("and parts whose devices have their rows of what they do not share") {
  check_as_one_device<
      Hybrid<Pipeline<ZeroBubbleH1, 4, Split<3>, Split<3>>, TensorParallel<2, SequenceRows>>>();
}

TEST_CASE("messages, sums of replicas and of slices each have their own ranks") {
  using P = Program<test::SmallGpt, Replicas<OneFOneB>, 8>;
  static_assert(P::ranks == 8 && P::devices == 2 && P::slices == 2);
  RankGroups const own{group_facts<P>, P::mesh_of(1)};
  auto const groups = own.list();
  auto const ranks = [&](int group) { return groups[static_cast<std::size_t>(group)].ranks; };
  CHECK(ranks(own.of_stage(0, 0)) == std::vector{0, 4});
  CHECK(ranks(own.of_stage(7, 1)) == std::vector{3, 7});
  CHECK(ranks(own.of_slices(5)) == std::vector{4, 5});
  CHECK(ranks(own.of_slices(2)) == std::vector{2, 3});
  CHECK(ranks(own.of_link(0, 0, true)) == std::vector{0, 2});
  CHECK(ranks(own.of_link(3, 0, false)) == std::vector{7, 5});
  CHECK(ranks(own.of_tie(5, 0, 0)) == std::vector{5, 7});
  CHECK(groups.size() == 4 + 8 + 4 + 4);  // stages, links, shared words, slices
}

}  // namespace tensor_parallel_pipeline_test
}  // namespace tandem
