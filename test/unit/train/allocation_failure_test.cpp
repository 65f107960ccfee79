// SPDX-License-Identifier: Apache-2.0
// Every allocation of load(), save() and a first step() fails, one after the other, once and for
// ever: nothing has changed then, on any replica, and the next call does its work, or says that a
// rank has failed. operator new is replaced.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace {
std::atomic<long> until_failure{0};  // allocations; 0: none fails
std::atomic<bool> for_ever{false};
std::atomic<bool> failed{false};

bool fails() {
  long left = until_failure.load(std::memory_order_relaxed);
  while (left > 0 && !until_failure.compare_exchange_weak(left, left - 1)) {
  }
  bool const now = left == 1 || (left <= 0 && failed.load() && for_ever.load());
  if (now) {
    failed.store(true);
  }
  return now;
}
}  // namespace

// Not inlined: GCC would warn of a free() that it sees next to a new that it does not.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* const memory = fails() ? nullptr : std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) {
    throw std::bad_alloc{};
  }
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tandem {
namespace allocation_failure_test {

template <class S>
using Of = Trainer<test::PlainNet, S, BasicHost<Portable>>;
using Two = Of<DataParallel<2>>;
using Stages = Of<Pipeline<OneFOneB, 2, Split<2>, Split<2>>>;
using Four = Of<Hybrid<DataParallel<2>, Pipeline<GPipe, 2, Split<2>, Split<2>>>>;

constexpr Shape shape = image_shape(1, 4, 4);

/// All that training goes on from, of every replica.
struct State {
  template <class T>
  explicit State(T& trainer) : position{trainer.position()} {
    for (int replica = 0; replica < T::ProgramType::batching.replicas; ++replica) {
      for (auto const& p : trainer.parameters(replica)) {
        values.insert(values.end(), p.value.begin(), p.value.end());
        for (auto const& state : p.states) {
          values.insert(values.end(), state.begin(), state.end());
        }
      }
    }
  }
  bool operator==(State const& other) const {
    return values == other.values && position.step == other.position.step &&
           position.epoch == other.position.epoch && position.position == other.position.position &&
           position.seed == other.position.seed;
  }

  std::vector<float> values;
  TrainingPosition position;
};

TrainerOptions options(std::uint64_t seed) {
  return {.batch = 8, .optimizer = Adam{}, .seed = seed, .threads_per_device = 1};
}

/// Whether allocation @p n of call(), and all behind it if @p ever, has failed; then it has thrown.
template <class Call>
bool fails_at(long n, bool ever, Call const& call) {
  for_ever = ever;
  until_failure = n;
  bool thrown = false;
  try {
    call();
  } catch (std::exception const&) {  // std::bad_alloc, or an Error that had memory for its text
    thrown = true;
  }
  until_failure = 0;
  bool const any = failed.exchange(false);
  REQUIRE(thrown == any);
  return any;
}

/// call() with allocation 1, 2, … failing until none fails; before that unchanged() is to hold.
template <class Call, class Unchanged>
void fail_each(Call const& call, bool ever, Unchanged const& unchanged) {
  for (long n = 1;; ++n) {
    if (!fails_at(n, ever, call)) {
      CHECK(n > 30);  // there are that many
      return;
    }
    if (!unchanged()) {
      INFO("those behind it fail, too: " << ever);
      FAIL("allocation " << n << " failed, and the state is another");
    }
  }
}

template <class T>
void check_load() {
  test::Watchdog const watchdog{"load without memory"};
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  T saved{options(1)};
  saved.train(test::dataset(shape, 3, 24), 0);
  saved.save(path);
  for (bool const ever : {false, true}) {
    T trainer{options(2)};
    trainer.train(test::dataset(shape, 3, 8), 0);
    State const before{trainer};
    auto const unchanged = [&] { return State{trainer} == before; };
    fail_each([&] { trainer.load(path); }, ever, unchanged);
    CHECK((State{trainer} == State{saved}));
    test::Samples<float> const batch{shape, 3, 8};
    trainer.step(batch.x, batch.y);
    State const stepped{trainer};
    fail_each([&] { trainer.load_weights(path); }, ever, [&] { return State{trainer} == stepped; });
    int const last = T::ProgramType::batching.replicas - 1;
    CHECK(test::values_of(trainer.parameters(last)) == test::values_of(saved.parameters()));
  }
}

TEST_CASE("load() without memory changes nothing on any replica") { check_load<Two>(); }
TEST_CASE("load() without memory changes nothing in a pipeline, or in two") {
  check_load<Stages>();
  check_load<Four>();
}

/// A first step makes message boxes and the threads of streams. Where memory for them is lacking a
/// rank fails, so that the trainer refuses another step; what it has can be saved, and is as it
/// was.
template <class T>
void check_step() {
  test::Watchdog const watchdog{"a step without memory"};
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::Samples<float> const batch{shape, 3, 8};
  T good{options(1)};
  State const before{good};
  double const loss = good.step(batch.x, batch.y).loss;
  State const after{good};
  for (bool const ever : {false, true}) {
    for (long n = 1;; ++n) {
      INFO("allocation " << n << ", those behind it fail, too: " << ever);
      T trainer{options(1)};
      if (!fails_at(n, ever, [&] { trainer.step(batch.x, batch.y); })) {
        CHECK(n > 5);  // there are that many
        CHECK((State{trainer} == after));
        break;
      }
      CHECK((State{trainer} == before));
      CHECK(test::contains(test::message<ContractError>([&] { trainer.step(batch.x, batch.y); }),
                           "save, make a new Trainer and load that"));
      trainer.save(path);
      T next{options(2)};
      next.load(path);
      CHECK(next.step(batch.x, batch.y).loss == loss);
      CHECK((State{next} == after));
    }
  }
}

TEST_CASE("a step() without memory leaves the state of before, to be saved") {
  check_step<Stages>();
  check_step<Four>();
}

TEST_CASE("save() without memory changes nothing, and leaves a whole file or none") {
  test::Watchdog const watchdog{"save without memory"};
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  Two trainer{options(1)};
  trainer.save(path);
  std::string const old = test::content(path);
  trainer.train(test::dataset(shape, 3, 24), 0);
  trainer.save(folder.file("new"));
  std::string const fresh = test::content(folder.file("new"));
  State const before{trainer};
  for (bool const ever : {false, true}) {
    test::put(path, old);
    fail_each([&] { trainer.save(path); }, ever,
              [&] {
                return State{trainer} == before && folder.entries() == 2 &&
                       test::content(path) == old;
              });
    CHECK(test::content(path) == fresh);
    fail_each([&] { trainer.export_model(path); }, ever,
              [&] {
                return State{trainer} == before && folder.entries() == 2 &&
                       test::content(path) == fresh;
              });
  }
}

}  // namespace allocation_failure_test
}  // namespace tandem
