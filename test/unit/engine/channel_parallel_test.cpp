// SPDX-License-Identifier: Apache-2.0
// Devices that share the channels of images: the numbers of one device, whole checkpoints.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <shared_channels.hpp>
#include <support/temporary_folder.hpp>

namespace tandem {
namespace channel_parallel_test {

using test::Channels;
using test::Double;

using One = SingleDevice<Microbatches<2>>;
template <int N>
using Shared = ChannelParallel<N, Microbatches<2>>;

template <class S>
using On = Trainer<Channels, S, Double>;

template <class S>
struct Trained {
  On<S> trainer{test::parity_options()};
  std::vector<StepResult> results{};
  Trained() {
    test::Watchdog const watchdog{"three steps of shared channels"};
    for (int s = 0; s < 3; ++s) {
      results.push_back(test::parity_step(trainer, s));
    }
  }
};

template <class S>
void check_as_one_device() {
  static Trained<One> const one;
  Trained<S> const many;
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(one.results[s].loss - many.results[s].loss) <= 1e-12);
    CHECK(std::fabs(one.results[s].gradient_norm - many.results[s].gradient_norm) <= 1e-12);
    CHECK(one.results[s].metric == many.results[s].metric);
  }
  for (int rank = 0; rank < S::ranks; ++rank) {
    for (test::Part const part : {test::Part::value, test::Part::gradient}) {
      test::Difference const off =
          test::difference(many.trainer.parameters(rank), one.trainer.parameters(), part);
      INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= 1e-12);
    }
  }
}

TEST_CASE("two and four devices that share channels train as one does") {
  check_as_one_device<Shared<2>>();
  check_as_one_device<Shared<4>>();
}

TEST_CASE("a device has its slices of the pairs, of kernels, groups, norms and a vector") {
  using Own = test::DeviceOf<On<Shared<4>>>;
  using Whole = test::DeviceOf<On<One>>;
  constexpr std::int64_t pairs = 8 * 3 * 9 + 16 + (8 * 2 * 9 + 8) + 16 * 9 + 32 + 6 * 16 +
                                 (4 * 6 + 4) + 4 * 4 * 9 + (4 * 8 + 4) + 8 * 4 * 9 +
                                 (4 * 8 * 9 + 4) + 6 * 16;
  static_assert(Own::graph.parameter_elements() ==
                Whole::graph.parameter_elements() - pairs + pairs / 4);
}

TEST_CASE("initial values are those of the whole network, and a file goes on with any number") {
  test::TemporaryFolder const folder;
  On<One> one{test::parity_options()};
  On<Shared<4>> four{test::parity_options()};
  CHECK(test::first_difference(four.parameters(3), one.parameters()) == "");
  Trained<Shared<2>> two;
  two.trainer.save(folder.file("saved"));
  one.load(folder.file("saved"));
  four.load(folder.file("saved"));
  CHECK(test::first_difference(one.parameters(), two.trainer.parameters(1)) == "");
  double const loss = test::parity_step(two.trainer, 3).loss;
  CHECK(std::fabs(test::parity_step(one, 3).loss - loss) <= 1e-12);
  CHECK(std::fabs(test::parity_step(four, 3).loss - loss) <= 1e-12);
}

}  // namespace channel_parallel_test
}  // namespace tandem
