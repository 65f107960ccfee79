// SPDX-License-Identifier: Apache-2.0
// No allocation inside a step, and the start-up allocates what the memory report says: operator new
// and the C library's functions are counted. Copies of what other ranks have are gone with the next
// step. And each of a trainer's allocations fails once, and all from it on: an error, never
// std::terminate.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

#if defined(__GLIBC__)
#include <malloc.h>
#define TANDEM_COUNT_MALLOC 1
#else
#define TANDEM_COUNT_MALLOC 0
#endif

namespace {
std::atomic<long> allocations{0};
std::atomic<long> aligned_bytes{0};  // of aligned_alloc, which host::Buffer calls
std::atomic<long> new_bytes{0};      // of operator new
std::atomic<long> held_bytes{0};     // that it has given and not got back

constexpr long never = 1L << 60;
std::atomic<long> until_failure{never};  // of C++ allocations; below 0 some have failed
std::atomic<bool> fails_on{false};       // all after that one, too

bool fails() {
  if (until_failure.load(std::memory_order_relaxed) == never) {
    return false;
  }
  long const left = until_failure.fetch_sub(1);
  return left == 0 || (left < 0 && fails_on.load());
}

void hold([[maybe_unused]] void* memory, [[maybe_unused]] long sign) {
#if TANDEM_COUNT_MALLOC
  held_bytes.fetch_add(sign * static_cast<long>(malloc_usable_size(memory)));
#endif
}
}  // namespace

extern "C" {
#if TANDEM_COUNT_MALLOC
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* malloc(std::size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* memory, std::size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(memory, size);
}
#endif
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  aligned_bytes.fetch_add(static_cast<long>(size), std::memory_order_relaxed);
  if (fails()) {
    return nullptr;
  }
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}
}

// Not inlined: GCC would warn of a free() that it sees next to a new that it does not.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  new_bytes.fetch_add(static_cast<long>(size), std::memory_order_relaxed);
  if (void* const memory = fails() ? nullptr : std::malloc(size != 0 ? size : 1)) {
    hold(memory, 1);
    return memory;
  }
  throw std::bad_alloc{};
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  hold(memory, -1);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace tandem {
namespace {

template <class S>
void check_steps(TrainerOptions options) {
  test::Watchdog const watchdog{"allocations of a step"};
  options.batch = 13;
  // oneDNN allocates on its own where it runs a primitive.
  Trainer<test::TinyNet, S, BasicHost<Portable>> trainer{std::move(options)};
  test::Samples<float> const all{trainer.input, 5, 13};
  test::Samples<float> const few{trainer.input, 5, 9};
  for (int i = 0; i < 2; ++i) {  // a pipeline has sent every message once when it is filled
    trainer.step(all.x, all.y);
    trainer.step(few.x, few.y);
  }
  long const before = allocations.load();
  for (int i = 0; i < 10; ++i) {
    trainer.step(all.x, all.y);
    trainer.step(few.x, few.y);
  }
  long const after = allocations.load();
  CHECK(after - before == 0);
}

TEST_CASE("a step on one device allocates nothing") {
  CHECK(allocations.load() > 0);  // the counter counts
  check_steps<SingleDevice<Microbatches<4>, Reproducible<>>>(
      {.clip_norm = 1.0, .threads_per_device = 2});
  check_steps<SingleDevice<Microbatches<4>, Reproducible<>>>(
      {.optimizer = Adam{},
       .groups = {{.pattern = "*.bias", .weight_decay = 0.0F}},
       .threads_per_device = 1});
}

TEST_CASE("a step on two devices allocates nothing, with many buckets and an empty shard") {
  check_steps<DataParallel<2, Microbatches<2>, BucketBytes<64, 256>>>(
      {.optimizer = Sgd{.momentum = 0.9F}, .clip_norm = 1.0, .threads_per_device = 1});
  check_steps<DataParallel<3, Weighted<2, 0, 1>>>({.optimizer = Adam{}, .threads_per_device = 1});
}

TEST_CASE("a step of a pipeline allocates nothing") {
  check_steps<Pipeline<OneFOneB, 4, Split<4>, Split<5>>>(
      {.optimizer = Sgd{.momentum = 0.9F}, .clip_norm = 1.0, .threads_per_device = 1});
  check_steps<Hybrid<
      DataParallel<2, Reproducible<>>,
      Pipeline<Interleaved<2>, 2, Split<2>, Split<2>, Split<2>, Split<3>, Checkpoint<Boundaries>>>>(
      {.optimizer = Adam{}, .threads_per_device = 1});
}

TEST_CASE("a step of an asynchronous pipeline allocates nothing") {
  TrainerOptions const options{.optimizer = Sgd{.momentum = 0.9F}, .threads_per_device = 1};
  check_steps<Pipeline<PipeDream, 1, Split<4>, Split<5>>>(options);
  check_steps<Pipeline<PipeDream2BW, 3, Split<4>, Split<5>>>(options);
  check_steps<Pipeline<WeightPrediction, 1, Split<3>, Split<3>, Split<3>>>(options);
}

// Six arenas a rank, each rounded up to a cache line; with several ranks the words they share have
// cache lines, too.
template <class S>
void check_start(TrainerOptions const& options) {
  test::Watchdog const watchdog{"allocations of a start"};
  long const before = aligned_bytes.load();
  Trainer<test::TinyNet, S, Host> const trainer{options};
  long const bytes = aligned_bytes.load() - before;
  std::int64_t reported = 0;
  for (int rank = 0; rank < S::ranks; ++rank) {
    reported += trainer.memory(rank).total() - trainer.memory(rank).messages;
  }
  CHECK(bytes >= reported);
  CHECK(bytes < reported + S::ranks * (S::ranks > 1 ? 16 : 6) * 64);
}

// Of the first steps: the boxes of the messages, and a few words for each.
template <class S>
void check_messages() {
  test::Watchdog const watchdog{"allocations of the first messages"};
  Trainer<test::TinyNet, S, BasicHost<Portable>> trainer{{.batch = 13, .threads_per_device = 1}};
  test::Samples<float> const all{trainer.input, 5, 13};
  std::int64_t reported = 0;
  for (int rank = 0; rank < S::ranks; ++rank) {
    reported += trainer.memory(rank).messages;
  }
  CHECK((reported > 0) == (S::ranks > 1));
  long const before = new_bytes.load();
  for (int i = 0; i < 3; ++i) {
    trainer.step(all.x, all.y);
  }
  long const bytes = new_bytes.load() - before;
  CHECK(bytes >= reported);
  CHECK(bytes < reported + S::ranks * 512);
}

TEST_CASE("the first steps allocate the report's messages") {
  check_messages<SingleDevice<>>();
  check_messages<Pipeline<OneFOneB, 4, Split<4>, Split<5>>>();
  check_messages<Pipeline<Interleaved<2>, 2, Split<2>, Split<2>, Split<2>, Split<3>>>();
  check_messages<Pipeline<PipeDream, 1, Split<4>, Split<5>>>();
}

TEST_CASE("the start allocates the bytes of the report, and nothing else that is aligned") {
  TrainerOptions const options{.batch = 13, .optimizer = Adam{}, .threads_per_device = 1};
  check_start<SingleDevice<Microbatches<4>, Reproducible<>>>(options);
  check_start<Pipeline<OneFOneB, 4, Split<4>, Split<5>>>(options);
  check_start<Pipeline<PipeDream, 1, Split<4>, Split<5>>>(options);
  check_start<Pipeline<PipelinedModel, 1, Split<4>, Split<5>>>(options);
}

#if TANDEM_COUNT_MALLOC
struct WideNet : Network<Vector<64>, Sequential<Linear<256>, ReLU, Linear<5>>> {};

/// @param arrays  of WideNet's parameters that a rank copies to show what it has a part of
template <class S>
void check_given_back(long arrays) {
  test::Watchdog const watchdog{"copies that are given back"};
  using T = Trainer<WideNet, S, BasicHost<Portable>>;
  T trainer{{.batch = 8, .optimizer = Adam{}, .threads_per_device = 1}};
  test::Samples<float> const samples{T::input, 5, 8};
  for (int i = 0; i < 2; ++i) {
    trainer.step(samples.x, samples.y);
  }
  long const before = held_bytes.load();
  long elements = 0;
  for (auto const& p : trainer.parameters()) {
    elements += static_cast<long>(p.value.size());
  }
  long const copies = S::ranks * arrays * elements * static_cast<long>(sizeof(float));
  CHECK(held_bytes.load() >= before + copies);
  trainer.step(samples.x, samples.y);
  CHECK(held_bytes.load() < before + copies / 100);
}

TEST_CASE("a step gives copies of what other ranks have back") {
  check_given_back<DataParallel<2, ShardedState>>(3);  // gradients and two states
  check_given_back<DataParallel<2, ShardedParameters>>(4);
  check_given_back<TensorParallel<2>>(4);
}
#endif

template <class T>
std::vector<float> flat(T const& trainer) {
  std::vector<float> all;
  for (auto const& p : trainer.parameters()) {
    all.insert(all.end(), p.value.begin(), p.value.end());
  }
  return all;
}

/// Whether f() has thrown, when allocation number @p nth of it fails.
template <class F>
bool fails_without_memory(long nth, bool on, F const& f) {
  fails_on = on;
  until_failure = nth;
  bool thrown = false;
  try {
    f();
  } catch (std::exception const&) {
    thrown = true;
  }
  until_failure = never;
  return thrown;
}

/// How many allocations f() makes.
template <class F>
long allocations_of(F const& f) {
  until_failure = never - 1;
  f();
  return never - 1 - until_failure.exchange(never);
}

/// check(nth, on) for about @p count of @p all allocations, or for each, if the environment has
/// TANDEM_EACH_ALLOCATION: a minute.
template <class Check>
void at_allocations(long all, long count, Check const& check) {
  count = std::getenv("TANDEM_EACH_ALLOCATION") != nullptr ? all : count;
  for (long nth = 0; nth < all; nth += std::max(1L, all / count)) {
    check(nth, false);
    check(nth, true);
  }
}

template <class S>
void check_scarcity() {
  test::Watchdog const watchdog{"a trainer without memory", std::chrono::seconds{300}};
  using T = Trainer<test::PlainNet, S, BasicHost<Portable>>;
  TrainerOptions const options{
      .batch = 13, .optimizer = Sgd{.momentum = 0.9F}, .shuffle = false, .threads_per_device = 1};
  test::Samples<float> const samples{T::input, 3, 13};
  auto const data = test::dataset(T::input, 3, 26);
  test::TemporaryFolder const folder;
  std::string const path = folder.file("saved");
  auto const make = [&] { T{options}; };
  at_allocations(allocations_of(make), 25,
                 [&](long nth, bool on) { fails_without_memory(nth, on, make); });

  std::optional<T> trainer;
  auto const anew = [&] {
    trainer.reset();
    trainer.emplace(options);
    trainer->step(samples.x, samples.y);
  };
  anew();
  trainer->save(path);
  auto const each = [&](auto const& f) {
    anew();
    at_allocations(allocations_of([&] { f(*trainer); }), 7, [&](long nth, bool on) {
      anew();
      std::vector<float> const weights = flat(*trainer);
      if (!fails_without_memory(nth, on, [&] { f(*trainer); })) {
        return;
      }
      bool usable = true;
      try {
        trainer->evaluate(data);
      } catch (ContractError const&) {  // since a rank has failed
        usable = false;
      }
      if (usable) {
        CHECK(trainer->position().step == 1);
        CHECK(flat(*trainer) == weights);
      }
    });
  };
  each([&](T& t) { t.train(data, 0); });
  each([&](T& t) { t.evaluate(data); });
  each([&](T& t) { t.predict(data); });
  each([&](T& t) { t.save(path + "2"); });
  each([&](T& t) { t.load_weights(path); });
}

TEST_CASE("without memory there is an error, and no end of the program") {
  check_scarcity<SingleDevice<Microbatches<2>>>();
  check_scarcity<DataParallel<2>>();
  check_scarcity<Pipeline<PipeDream, 1, Split<2>, Split<2>>>();
}

}  // namespace
}  // namespace tandem
