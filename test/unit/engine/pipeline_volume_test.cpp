// SPDX-License-Identifier: Apache-2.0
// What goes over the links of a model that is cut: calls and bytes of a step, by hand. A tensor
// goes to a device once, however many layers read it there, and so does the sum of their gradients
// on its way back.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace pipeline_volume_test {

template <class S>
struct Logged {
  using T = Trainer<DeepNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport>;
  T trainer{[] {
    TrainerOptions options = parity_options();
    options.clip_norm = 0.0;
    return options;
  }()};

  void step(int samples) {
    Watchdog const watchdog{"messages of a step"};
    Samples<float> const data{T::input, 5, samples};
    LoggingTransport<S::ranks>::clear();
    trainer.step(data.x, data.y);
  }
  static Volume of(int rank, Operation operation, char const* label = "") {
    return volume(LoggingTransport<S::ranks>::log(rank), operation, label);
  }
};

constexpr std::int64_t wide = 6 * 8 * 8 * 4;    // bytes of a sample behind the dropout
constexpr std::int64_t narrow = 5 * 4 * 4 * 4;  // and behind the second convolution of all

TEST_CASE("a boundary is crossed once by each microbatch, and once back") {
  Logged<InFour<OneFOneB, 4>> four;
  for (int const samples : {4, 12, 13}) {
    four.step(samples);
    std::int64_t const link[] = {wide * samples, wide * samples, narrow * samples};
    for (int rank = 0; rank < 4; ++rank) {
      INFO("rank " << rank << " of " << samples << " samples");
      Volume const none{};
      Volume const before = rank > 0 ? Volume{4, link[rank - 1]} : none;
      Volume const after = rank < 3 ? Volume{4, link[rank]} : none;
      std::string const stage = std::to_string(rank);
      CHECK(four.of(rank, Operation::send, (stage + "SEND_F").c_str()) == after);
      CHECK(four.of(rank, Operation::receive, (stage + "RECV_B").c_str()) == after);
      CHECK(four.of(rank, Operation::receive, (stage + "RECV_F").c_str()) == before);
      CHECK(four.of(rank, Operation::send, (stage + "SEND_B").c_str()) == before);
      CHECK(four.of(rank, Operation::send).calls == before.calls + after.calls);
      CHECK(four.of(rank, Operation::all_reduce) ==
            Volume{1, 2 * 8 * exact_lanes});  // losses and metrics
    }
  }
}

TEST_CASE("gradients of three readers go back one by one where sums must be the same") {
  Logged<InTwo<OneFOneB, 4, Reproducible<>>> two;
  two.step(13);
  CHECK(two.of(0, Operation::send) == Volume{4, 13 * wide});
  CHECK(two.of(1, Operation::send) == Volume{12, 3 * 13 * wide});
}

TEST_CASE("evaluation sends forward only, also with fewer samples than microbatches") {
  using Two = Logged<InTwo<OneFOneB, 4>>;
  Two two;
  LoggingTransport<2>::clear();
  two.trainer.evaluate(dataset(two.trainer.input, 5, 15));  // 13 and 2
  CHECK(two.of(0, Operation::send) == Volume{4 + 2, 15 * wide});
  CHECK(two.of(0, Operation::receive) == Volume{});
  CHECK(two.of(1, Operation::receive) == Volume{4 + 2, 15 * wide});
  CHECK(two.of(1, Operation::send) == Volume{});
}

TEST_CASE("each stage of an interleaved device sends its own") {
  Logged<InFour<Interleaved<2>, 4>> two;
  two.step(13);
  CHECK(two.of(0, Operation::send) == Volume{12, 13 * (wide + wide + narrow)});  // 0F, 2F, 2B
  CHECK(two.of(1, Operation::send) == Volume{12, 13 * (wide + wide + narrow)});  // 1F, 1B, 3B
}

TEST_CASE("where stages turn back at a device nothing is sent") {
  Logged<InFour<ZeroBubbleV, 4>> two;
  two.step(13);
  CHECK(two.of(0, Operation::send) == Volume{8, 13 * (wide + narrow)});  // 0F, 3B
  CHECK(two.of(1, Operation::send) == Volume{8, 13 * (wide + narrow)});  // 2F, 1B
}

// Two branches of the concatenation elsewhere: both begin with a pool of the same tensor.
inline constexpr auto branches = place<DeepNet>({{"5.1", 1}, {"5.2", 1}});

constexpr std::int64_t pools = wide / 6 * (6 + 3);  // what they make; a channel is a sixth of wide

template <class... Options>
void check_branches(int gradients, std::int64_t bytes) {
  Logged<ModelParallel<Placed<branches>, Microbatches<2>, Options...>> two;
  two.step(13);
  CHECK(two.of(0, Operation::send) == Volume{2 + 4, 13 * (wide + pools)});  // then two gradients
  CHECK(two.of(1, Operation::send) == Volume{4 + gradients, 13 * (pools + bytes)});
  CHECK(two.of(0, Operation::receive) == two.of(1, Operation::send));
  CHECK(two.of(1, Operation::receive) == two.of(0, Operation::send));
}

TEST_CASE("one message for two readers, and one gradient for both") { check_branches<>(2, wide); }

TEST_CASE("where sums must be the same, the gradient of each reader is a message") {
  check_branches<Reproducible<>>(4, 2 * wide);
}

}  // namespace pipeline_volume_test
}  // namespace tandem::test
