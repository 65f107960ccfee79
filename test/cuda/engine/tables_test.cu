// SPDX-License-Identifier: Apache-2.0

/// @file
/// GPUs that share tables of words: the numbers of one device on the host, with any number of
/// words, smoothed targets and shared weights, and what they write and predict.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <compare.hpp>
#include <split_words.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

#include "slices_support.hpp"

namespace cuda_tables_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using Alone = SingleDevice<Microbatches<2>>;
template <class S, class Net, class Precision = Fp64>
using Many = OnGpus<S, Precision, VirtualTransport, Net>;
template <class Net>
using OnHost = Trainer<Net, Alone, BasicHost<Portable, Fp64>>;

template <class S, class Net>
void check_as_one_device() {
  Watchdog const watchdog{"tables in slices"};
  OnHost<Net> one{gpt_options()};
  Many<S, Net> many{gpt_options()};
  CHECK(first_difference(many.parameters(1), one.parameters()) == "");
  auto const a = shared_steps(one, 3);
  auto const b = shared_steps(many, 3);
  for (std::size_t s = 0; s < a.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(a[s].loss - b[s].loss) <= 1e-11);
    CHECK(std::fabs(a[s].gradient_norm - b[s].gradient_norm) <= 1e-11);
    CHECK(a[s].metric == b[s].metric);
    CHECK(a[s].weight == b[s].weight);
  }
  for (int rank = 0; rank < S::ranks; ++rank) {
    for (Part const part : {Part::value, Part::gradient}) {
      Difference const off = difference(many.parameters(rank), one.parameters(), part);
      INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= 1e-11);
    }
  }
}

TEST_CASE("GPUs that share words train as one device on the host, whatever their number") {
  check_as_one_device<SplitWords<2>, FreeWords>();
  check_as_one_device<SplitWords<4>, FreeWords>();
  check_as_one_device<SplitWords<8>, FreeWords>();
}

TEST_CASE("so they do with a table that two layers share, and with logits that are made again") {
  check_as_one_device<SplitTied, TiedWords>();
  check_as_one_device<SplitWords<2, SequenceRows>, TiedWords>();
}

}  // namespace cuda_tables_test
