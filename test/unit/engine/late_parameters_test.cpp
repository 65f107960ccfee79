// SPDX-License-Identifier: Apache-2.0
// What other replicas have updated comes while the next step is at work, bucket by bucket.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {
namespace late_parameters_test {

/// Passes its input on, and counts how often; from some call on it throws.
template <int Place>
struct Counted {
  static inline std::atomic<int> forwards = 0;
  static inline std::atomic<int> throws_from = 1 << 30;

  static constexpr std::string_view name = "Counted";
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& call) {
    if (++forwards >= throws_from) {
      throw std::runtime_error{"sprung"};
    }
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) { std::ranges::copy(call.dy, call.dx.begin()); }
};

/// Two buckets; the second layer's is number 0.
struct Net : Network<Vector<4>, Sequential<Linear<8>, Counted<0>, ReLU, Linear<3>, Counted<1>>> {};

enum class Gather {
  prompt,
  behind_next_step,  ///< of the second layer's parameters, only when the next step has begun
  slow
};
Gather gather = Gather::prompt;

template <class C>
class Tardy : public C {
 public:
  explicit Tardy(C communicator) : C{std::move(communicator)} {}

  template <class T, class Stream>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out, Stream& stream,
                  Label label = {}) {
    if (to_string({label.text}) == "parameters" && label.index == 0) {
      wait_on(stream);
    }
    C::template all_gather<T>(in, out, stream, label);
  }

 private:
  // All passes of this step have gone forward: their gradients are added up.
  template <class Stream>
  static void wait_on(Stream& stream) {
    if (gather == Gather::slow) {
      stream.post([] { std::this_thread::sleep_for(std::chrono::milliseconds{30}); });
    } else if (gather == Gather::behind_next_step) {
      stream.post([so_far = Counted<0>::forwards.load()] {
        for (int ms = 0; Counted<0>::forwards == so_far; ++ms) {
          if (ms == 20000) {
            throw std::runtime_error{"the next step waits for parameters that it does not read"};
          }
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
      });
    }
  }
};

template <int Ranks>
class TardyTransport : public ThreadsTransport<Ranks> {
  using Base = ThreadsTransport<Ranks>;

 public:
  using Communicator = Tardy<typename Base::Communicator>;
  using Base::Base;

  [[nodiscard]] Communicator communicator(int rank) {
    return Communicator{Base::communicator(rank)};
  }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return Communicator{Base::communicator(rank, group)};
  }
};

using Whole = DataParallel<2, BucketBytes<1, 1>>;
using Shards = DataParallel<2, BucketBytes<1, 1>, ShardedState>;
template <class S>
using On = Trainer<Net, S, BasicHost<Portable>, SoftmaxCrossEntropy<>, NoMetric, TardyTransport>;

TrainerOptions options() { return {.batch = 4, .optimizer = AdamW{.learning_rate = 0.1F}}; }

StepResult step(auto& trainer, int s) {
  std::array<float, 16> x{};
  std::array<std::int32_t, 4> y{};
  for (int i = 0; i < 16; ++i) {
    x[static_cast<std::size_t>(i)] = static_cast<float>((i * 7 + s * 3) % 5) - 2.0F;
  }
  for (int i = 0; i < 4; ++i) {
    y[static_cast<std::size_t>(i)] = (i + s) % 3;
  }
  return trainer.step(x, y);
}

template <class S>
std::vector<double> numbers(Gather how, int steps) {
  Watchdog const watchdog{"steps with late parameters"};
  gather = how;
  On<S> trainer{options()};
  std::vector<double> all;
  for (int s = 0; s < steps; ++s) {
    all.push_back(step(trainer, s).loss);
  }
  gather = Gather::prompt;
  step(trainer, steps);  // what waits for the next step has it
  for (int replica = 0; replica < 2; ++replica) {
    for (NamedParameter<float> const& p : trainer.parameters(replica)) {
      all.insert(all.end(), p.value.begin(), p.value.end());
    }
  }
  return all;
}

TEST_CASE("the next step begins while the parameters of later layers are on their way") {
  CHECK(numbers<Shards>(Gather::behind_next_step, 5) == numbers<Whole>(Gather::prompt, 5));
  CHECK(numbers<Shards>(Gather::slow, 3) == numbers<Whole>(Gather::prompt, 3));
}

TEST_CASE("who reads parameters, or ends a trainer, waits for them") {
  Watchdog const watchdog{"reads late parameters"};
  TemporaryFolder const folder;
  std::vector<std::string> files;
  for (Gather const how : {Gather::prompt, Gather::slow}) {
    gather = how;
    On<Shards> exported{options()};
    On<Shards> read{options()};
    {
      On<Shards> ended{options()};
      step(ended, 0);
    }
    step(exported, 0);
    exported.export_model(folder.file("weights"));
    files.push_back(content(folder.file("weights")));
    step(read, 0);
    auto const first = read.parameters(0);
    CHECK(first_difference(first, read.parameters(1)) == "");
    CHECK(first_difference(first, exported.parameters()) == "");
  }
  CHECK(files[0] == files[1]);
  gather = Gather::prompt;
}

/// The second step fails at the layer's call number @p call, from 1, of both ranks' calls.
template <int Place>
void fail_at(On<Shards>& trainer, int call) {
  step(trainer, 0);
  Counted<Place>::throws_from = Counted<Place>::forwards + call;
  CHECK_THROWS_AS(step(trainer, 1), RankError);
  Counted<Place>::throws_from = 1 << 30;
  gather = Gather::prompt;
}

TEST_CASE("after a failure the weights can be saved if all had come") {
  Watchdog const watchdog{"a failure with late parameters"};
  {
    gather = Gather::slow;
    On<Shards> trainer{options()};
    fail_at<1>(trainer, 2);  // both have read all
    TemporaryFolder const folder;
    trainer.export_model(folder.file("weights"));
  }
  gather = Gather::behind_next_step;
  On<Shards> trainer{options()};
  fail_at<0>(trainer, 1);
  CHECK(contains(message<ContractError>([&] { trainer.export_model("weights"); }),
                 "its replicas may differ"));
}

static_assert(after_failure(GroupState::works, WorkKind::steps, true, true) ==
              GroupState::readable);
static_assert(after_failure(GroupState::works, WorkKind::computes, true, false) ==
              GroupState::torn);

}  // namespace late_parameters_test
}  // namespace tandem::test
