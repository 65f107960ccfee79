// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <tandem/strategy/data_parallel.hpp>
#include <tandem/strategy/schedule.hpp>

namespace {

using namespace tandem;

template <int Length>
std::string text(ActionRow<Length> const& row) {
  std::string all;
  for (int i = 0; i < Length; ++i) {
    all += (i > 0 ? " " : "") + to_string(row.action[i]);
  }
  return all;
}

template <class S, int Buckets>
std::string training() {
  constexpr int length = training_length(S::batching, Buckets);
  constexpr auto row = training_row<length>(S::batching, Buckets);
  CHECK(row.action[length].kind == ActionKind::end);
  return text(row);
}

template <class S>
std::string forward() {
  constexpr int length = forward_length(S::batching);
  constexpr auto row = forward_row<length>(S::batching);
  CHECK(row.action[length].kind == ActionKind::end);
  return text(row);
}

TEST_CASE("a training step, as text") {
  CHECK(training<SingleDevice<>, 3>() == "0F0 0B0 0U");
  CHECK(training<SingleDevice<Microbatches<3>>, 1>() == "0F0 0B0 0F1 0B1 0F2 0B2 0U");
  CHECK(training<DataParallel<2, Microbatches<2>>, 1>() ==
        "0F0 0B0 0F1 0B1 0REDUCE_GRAD0 0REDUCE_LOSS 0U");
  CHECK(training<DataParallel<4>, 3>() ==
        "0F0 0B0 0REDUCE_GRAD0 0REDUCE_GRAD1 0REDUCE_GRAD2 0REDUCE_LOSS 0U");
  CHECK(training<DataParallel<2>, 0>() == "0F0 0B0 0REDUCE_LOSS 0U");  // nothing is trained
  CHECK(training<DataParallel<1>, 2>() == "0F0 0B0 0U");
}

TEST_CASE("a pass without training, as text") {
  CHECK(forward<SingleDevice<>>() == "0F0");
  CHECK(forward<SingleDevice<Microbatches<3>>>() == "0F0 0F1 0F2");
  CHECK(forward<DataParallel<2, Microbatches<2>>>() == "0F0 0F1 0REDUCE_LOSS");
}

TEST_CASE("more microbatches than a 16-bit index can count") {
  static constexpr Batching batching{.microbatches = 40'000};
  static auto const row = training_row<training_length(batching, 1)>(batching, 1);
  CHECK(to_string(row.action[2 * 39'999]) == "0F39999");
  CHECK(to_string(row.action[2 * 39'999 + 1]) == "0B39999");
  CHECK(to_string(row.action[2 * 40'000]) == "0U");
}

}  // namespace
