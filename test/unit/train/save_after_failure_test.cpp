// SPDX-License-Identifier: Apache-2.0
// What can be saved after a failure: everything, unless a parameter was being changed.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>
#include <trap_network.hpp>

namespace tandem {
namespace save_after_failure_test {

using test::contains;
using test::Pass;
using test::Trap;

constexpr bool readable(WorkKind kind, bool untouched) {
  return after_failure(GroupState::works, kind, untouched) == GroupState::readable;
}
static_assert(readable(WorkKind::looks, false) && readable(WorkKind::computes, false));
static_assert(readable(WorkKind::steps, true) && !readable(WorkKind::steps, false));
static_assert(!readable(WorkKind::writes, true) && !readable(WorkKind::restores, true));
static_assert(after_failure(GroupState::torn, WorkKind::looks, true) == GroupState::torn);

/// Throws where a test wants it.
struct Trapped {
  static constexpr std::string_view name = "Trapped";
  static inline std::atomic<int> left = 0;  // calls; 0: never

  static double value(std::span<float const>, std::span<std::int32_t const>) {
    if (left > 0 && --left == 0) {
      throw std::runtime_error{"a metric of its own"};
    }
    return 0.0;
  }
};

template <class S>
using TrainerOf = Trainer<test::TrapNet, S, BasicHost<Portable>, SoftmaxCrossEntropy<>, Trapped>;
using Two = TrainerOf<DataParallel<2>>;
constexpr Shape input = Two::input;

TrainerOptions options(std::uint64_t seed = 1) {
  return {.batch = 8, .optimizer = Adam{}, .seed = seed, .threads_per_device = 1};
}

auto const samples = test::dataset(input, 3, 24);
test::Samples<float> const batch{input, 3, 8};

/// The trainer can be saved, and that is what @p before has saved.
template <class T>
void check_saves(T& trainer, std::string const& before) {
  test::TemporaryFolder const folder;
  Trap::set(-1, Pass::none, 0);
  Trapped::left = 0;
  trainer.save(folder.file("after"));
  CHECK(test::content(folder.file("after")) == test::content(before));
  trainer.export_model(folder.file("weights"));
  T next{options(2)};
  next.load(folder.file("after"));
  CHECK(test::first_difference(next.parameters(), trainer.parameters()) == "");
  next.train(samples, next.position().epoch);
  next.save(folder.file("next"));
  std::string const refused =
      "a rank of this trainer has failed, so its ranks cannot work together any more; no parameter "
      "was being changed, so save(), export_model() and parameters() go on: save, make a new "
      "Trainer and load that";
  CHECK(contains(test::message<ContractError>([&] { trainer.step(batch.x, batch.y); }), refused));
  CHECK(contains(test::message<ContractError>([&] { trainer.evaluate(samples); }), refused));
  CHECK(
      contains(test::message<ContractError>([&] { trainer.load(folder.file("next")); }), refused));
  CHECK(contains(test::message<ContractError>([&] { trainer.load_weights(folder.file("next")); }),
                 refused));
  trainer.save(folder.file("after"));
  CHECK(test::content(folder.file("after")) == test::content(before));
}

/// fail(trainer) throws; then the trainer can be saved as it was.
template <class T, class Fail>
void check_failure(Fail const& fail, std::string const& sentence) {
  test::Watchdog const watchdog{"saving after a failure"};
  test::TemporaryFolder const folder;
  T trainer{options()};
  trainer.train(samples, 0);
  trainer.save(folder.file("before"));
  CHECK(contains(test::message<RankError>([&] { fail(trainer); }), sentence));
  check_saves(trainer, folder.file("before"));
}

TEST_CASE("a metric or a layer that throws in an evaluation loses no work") {
  for (int const call : {1, 2, 5}) {
    check_failure<Two>(
        [&](Two& trainer) {
          Trapped::left = call;
          trainer.evaluate(samples);
        },
        "a metric of its own");
    check_failure<Two>(
        [&](Two& trainer) {
          Trap::set(1, Pass::forward, call);
          trainer.predict(samples);
        },
        "sprung");
  }
}

TEST_CASE("of two models each has its own weights again after an evaluation that failed") {
  using Cross = TrainerOf<CrossModelParallel<AverageWeights<2>, Auto<2>>>;
  for (WhichModel const which : {WhichModel::average, WhichModel::second}) {
    check_failure<Cross>(
        [&](Cross& trainer) {
          Trap::set(1, Pass::forward, 2);
          trainer.evaluate(samples, which);
        },
        "sprung");
  }
}

TEST_CASE("a training step that fails before any update loses no step before it") {
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    check_failure<Two>(
        [&](Two& trainer) {
          Trap::set(0, pass, 2);
          trainer.step(batch.x, batch.y);
        },
        "sprung");
  }
}

/// Samples of which one cannot be read.
struct Unreadable {
  using Target = std::int32_t;
  std::int64_t bad;

  [[nodiscard]] static std::int64_t size() { return samples.size(); }
  [[nodiscard]] static Shape shape() { return input; }
  [[nodiscard]] static int targets() { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    if (index == bad) {
      throw std::runtime_error{"cannot be read"};
    }
    samples.read(index, x, y);
  }
};

TEST_CASE("a sample that cannot be read ends the call, and no more") {
  test::Watchdog const watchdog{"a sample that cannot be read"};
  test::TemporaryFolder const folder;
  Two trainer{options()};
  Two untouched{options()};
  CHECK_THROWS_WITH(trainer.evaluate(Unreadable{20}), "cannot be read");
  CHECK_THROWS_WITH(trainer.predict(Unreadable{0}), "cannot be read");
  trainer.save(folder.file("x"));
  trainer.train(samples, 0);
  untouched.train(samples, 0);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
  CHECK_THROWS_WITH(trainer.train(Unreadable{11}, 1), "cannot be read");
  trainer.save(folder.file("x"));  // with the steps before it
  trainer.train(samples, 1);
  untouched.train(samples, 1);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
}

/// Samples that call something before each is read.
template <class Call>
struct Calling {
  using Target = std::int32_t;
  Call const* call;

  [[nodiscard]] static std::int64_t size() { return samples.size(); }
  [[nodiscard]] static Shape shape() { return input; }
  [[nodiscard]] static int targets() { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    (*call)();
    samples.read(index, x, y);
  }
};
template <class Call>
Calling(Call const*) -> Calling<Call>;

constexpr char const* one_at_a_time =
    " of this trainer has not returned yet; a trainer does one thing at a time, so do not call it "
    "from another thread, nor from a dataset or a function that it calls: call one after the "
    "other, or make a Trainer for each";

TEST_CASE("what train() reads from cannot call the trainer, which has not failed by that") {
  test::Watchdog const watchdog{"a call inside a call"};
  test::TemporaryFolder const folder;
  Two trainer{options()};
  Two untouched{options()};
  auto const evaluates = [&] { trainer.evaluate(samples); };
  std::string const text =
      test::message<ContractError>([&] { trainer.train(Calling{&evaluates}, 0); });
  CHECK(text == std::string{"evaluate(): train()"} + one_at_a_time);
  auto const saves = [&] { trainer.save(folder.file("x")); };
  CHECK(test::message<ContractError>([&] { trainer.evaluate(Calling{&saves}); }) ==
        std::string{"save(): evaluate()"} + one_at_a_time);
  trainer.train(samples, 0);
  untouched.train(samples, 0);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
}

TEST_CASE("a second thread is told what the first is doing, and disturbs nothing") {
  test::Watchdog const watchdog{"two threads"};
  test::TemporaryFolder const folder;
  Two trainer{options()};
  Two untouched{options()};
  std::promise<void> reading;
  std::shared_future<void> const told{reading.get_future()};
  std::promise<void> tried;
  std::shared_future<void> const over{tried.get_future()};
  std::once_flag once;
  auto const waits = [&] {
    std::call_once(once, [&] { reading.set_value(); });
    over.wait();
  };
  std::thread first{[&] { trainer.train(Calling{&waits}, 0); }};
  told.wait();
  std::vector<float> const x(static_cast<std::size_t>(input.elements()));
  std::vector<std::int32_t> const y(1);
  std::pair<char const*, std::function<void()>> const calls[]{
      {"train()", [&] { trainer.train(samples, 0); }},
      {"evaluate()", [&] { trainer.evaluate(samples); }},
      {"predict()", [&] { static_cast<void>(trainer.predict(samples)); }},
      {"step()", [&] { trainer.step(x, y); }},
      {"trace_step()", [&] { trainer.trace_step(x, y); }},
      {"save()", [&] { trainer.save(folder.file("x")); }},
      {"export_model()", [&] { trainer.export_model(folder.file("x")); }},
      {"load()", [&] { trainer.load(folder.file("x")); }},
      {"load_weights()", [&] { trainer.load_weights(folder.file("x")); }},
      {"parameters()", [&] { static_cast<void>(trainer.parameters()); }}};
  for (auto const& [verb, call] : calls) {
    CHECK(test::message<ContractError>(call) == std::string{verb} + ": train()" + one_at_a_time);
  }
  tried.set_value();
  first.join();
  untouched.train(samples, 0);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
}

}  // namespace save_after_failure_test
}  // namespace tandem
