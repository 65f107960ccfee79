// SPDX-License-Identifier: Apache-2.0
// Devices that share the channels of images: the numbers of one device, whole checkpoints.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <shared_channels.hpp>
#include <support/temporary_folder.hpp>
#include <trained_alike.hpp>

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
using Trained = test::TrainedImages<Channels, S>;

template <class S>
void check_as_one_device() {
  static Trained<One> const one;
  test::check_trained_alike(one, Trained<S>{}, S::ranks);
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
