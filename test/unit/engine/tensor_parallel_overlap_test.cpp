// SPDX-License-Identifier: Apache-2.0
// The sum of a Copy's gradient, or of an Enter's, is queued behind the input gradient of its
// reader, and on its way while that one's weight gradient is computed.

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>

namespace tandem {
namespace tensor_parallel_overlap_test {

using Double = BasicHost<Portable, Fp64>;

/// What a rank has done, in order; its queue looks at it, too.
class Steps {
 public:
  void add(char const* what) {
    std::lock_guard const lock{mutex_};
    list_.emplace_back(what);
  }
  [[nodiscard]] std::vector<std::string> list() const {
    std::lock_guard const lock{mutex_};
    return list_;
  }
  void clear() {
    std::lock_guard const lock{mutex_};
    list_.clear();
  }
  /// On the queue: a sum arrives no earlier than a weight gradient is computed, or much later.
  void arrive() {
    for (int wait = 0; wait < 2000 && list().back() != "weight gradient"; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    add("sum arrives");
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> list_;
};
std::array<Steps, 2> steps;

/// A first Linear that says when its gradients are computed.
struct Watched : Linear<6> {
  using layer = Watched;
};

struct Net
    : Network<Tokens<4, 5>, Sequential<Embedding<5, 4>,
                                       Residual<Sequential<LayerNorm<>, Watched, ReLU, Linear<4>>>,
                                       Vocabulary<5>>> {};

template <class C>
class Noting : public Recording<C> {
  using Base = Recording<C>;

 public:
  Noting(C communicator, Steps& own) : Base{std::move(communicator), 64}, own_{&own} {}

  void all_reduce(auto&&... arguments) {
    note("gradient of copy", std::forward_as_tuple(arguments...));
    Base::all_reduce(std::forward<decltype(arguments)>(arguments)...);
  }
  template <class T, class Op>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      auto&&... arguments) {
    note("gradient of enter",
         std::tuple<int, int, int, decltype(arguments)...>(0, 0, 0, arguments...));
    Base::template reduce_scatter<T>(in, out, op, std::forward<decltype(arguments)>(arguments)...);
  }

 private:
  void note(char const* which, auto const& arguments) {
    char const* const label = std::get<4>(arguments).text;
    if (label != nullptr && std::strcmp(label, which) == 0) {
      own_->add("sum begins");
      std::get<3>(arguments).post([own = own_] { own->arrive(); });
    }
  }

  Steps* own_;
};

template <int Ranks>
class NotingTransport : public ThreadsTransport<Ranks> {
  using Base = ThreadsTransport<Ranks>;

 public:
  using Communicator = Noting<typename Base::Communicator>;
  using Base::Base;

  [[nodiscard]] Communicator communicator(int rank) {
    return {Base::communicator(rank), steps[static_cast<std::size_t>(rank)]};
  }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return {Base::communicator(rank, group), steps[static_cast<std::size_t>(rank)]};
  }
};

}  // namespace tensor_parallel_overlap_test

template <>
class Op<tensor_parallel_overlap_test::Watched, tensor_parallel_overlap_test::Double>
    : public Op<Linear<6>, tensor_parallel_overlap_test::Double> {
  using Base = Op<Linear<6>, tensor_parallel_overlap_test::Double>;

 public:
  explicit Op(OpSetup const& setup)
      : Base{setup},
        steps_{tensor_parallel_overlap_test::steps[static_cast<std::size_t>(setup.slice.number)]} {}

  void input_gradient(auto const& operands, auto const& pass) const {
    steps_.add("input gradient");
    Base::input_gradient(operands, pass);
  }
  void weight_gradient(auto const& operands, auto const& pass) const {
    steps_.add("weight gradient");
    Base::weight_gradient(operands, pass);
  }

 private:
  tensor_parallel_overlap_test::Steps& steps_;
};

namespace tensor_parallel_overlap_test {

template <class S, template <int> class Transport>
using On = Trainer<Net, S, Double, DefaultLoss<Net>, DefaultMetric<DefaultLoss<Net>>, Transport>;

std::vector<double> train(auto& trainer) {
  test::Watchdog const watchdog{"a step whose sum is held back"};
  std::vector<std::int32_t> const x{0, 3, 1, 4, 2, 2, 0, 1};
  std::vector<std::int32_t> const y{3, 1, 4, 0, 2, 0, 1, 3};
  trainer.step(x, y);
  std::vector<double> all;
  for (auto const& p : trainer.parameters()) {
    all.insert(all.end(), p.value.begin(), p.value.end());
  }
  return all;
}

template <class S>
void check_overlaps() {
  TrainerOptions const options{.batch = 2, .optimizer = AdamW{}, .threads_per_device = 1};
  On<S, NotingTransport> held{options};
  for (Steps& own : steps) {
    own.clear();
  }
  std::vector<double> const bits = train(held);
  for (Steps const& own : steps) {
    CHECK(own.list() == std::vector<std::string>{"input gradient", "sum begins", "weight gradient",
                                                 "sum arrives"});
  }
  for (Steps& own : steps) {
    own.clear();
  }
  On<S, ThreadsTransport> free{options};
  CHECK(train(free) == bits);
}

TEST_CASE("the sum of a Copy's gradient is on its way during the weight gradient behind it") {
  check_overlaps<TensorParallel<2>>();
}

TEST_CASE("so is that of an Enter's") { check_overlaps<TensorParallel<2, SequenceRows>>(); }

}  // namespace tensor_parallel_overlap_test
}  // namespace tandem
