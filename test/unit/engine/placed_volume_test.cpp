// SPDX-License-Identifier: Apache-2.0
// A tensor goes to a device once, however many layers read it there, and so does the sum of their
// gradients on its way back.

#include <doctest/doctest.h>

#include <cstdint>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace placed_volume_test {

// Two branches of the concatenation elsewhere: both begin with a pool of the same tensor.
inline constexpr auto branches = place<DeepNet>({{"5.1", 1}, {"5.2", 1}});

template <class... Options>
using Two = ModelParallel<Placed<branches>, Microbatches<2>, Options...>;

constexpr int samples = 13;
constexpr std::int64_t channel = 8 * 8 * 4 * samples;  // bytes
constexpr std::int64_t wide = 6 * channel;             // what the branches read
constexpr std::int64_t pools = (6 + 3) * channel;      // what they make

template <class S>
void step() {
  Watchdog const watchdog{"messages of branches"};
  Trainer<DeepNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport> trainer{
      parity_options()};
  LoggingTransport<2>::clear();
  parity_step(trainer, 0);
}
Volume sent(int rank) { return volume(LoggingTransport<2>::log(rank), Operation::send); }
Volume received(int rank) { return volume(LoggingTransport<2>::log(rank), Operation::receive); }

TEST_CASE("one message for two readers, and one gradient for both") {
  step<Two<>>();
  CHECK(sent(0) == Volume{2 + 4, wide + pools});  // the tensor, then two gradients
  CHECK(sent(1) == Volume{4 + 2, pools + wide});
  CHECK(received(0) == sent(1));
  CHECK(received(1) == sent(0));
}

TEST_CASE("where sums must be the same, the gradient of each reader is a message") {
  step<Two<Reproducible<>>>();
  CHECK(sent(0) == Volume{2 + 4, wide + pools});
  CHECK(sent(1) == Volume{4 + 4, pools + 2 * wide});
}

}  // namespace placed_volume_test
}  // namespace tandem::test
