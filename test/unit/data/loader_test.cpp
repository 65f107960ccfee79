// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tandem/core/error.hpp>
#include <tandem/data/augment.hpp>
#include <tandem/data/buckets.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/data/order.hpp>
#include <tandem/data/tensor_dataset.hpp>

#include "few_threads.hpp"
#include "watchdog.hpp"

namespace loader_test {

using doctest::Contains;
using tandem::Batch;
using tandem::Loader;
using tandem::LoaderOptions;
using tandem::Randomness;

using Data = tandem::TensorDataset<float>;

/// Samples of 2 x 3 pixels and two targets, all numbers different.
Data numbers(std::size_t samples) {
  std::vector<float> x(samples * 6);
  std::vector<float> y(samples * 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i) + 0.25F;
  }
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = -static_cast<float>(i);
  }
  return {tandem::image_shape(1, 2, 3), std::move(x), std::move(y), 2};
}

/// All that a loader returns.
struct Epoch {
  std::vector<float> x;
  std::vector<float> y;
  std::vector<int> sizes;
  std::vector<std::int64_t> firsts;

  bool operator==(Epoch const&) const = default;
};

template <class D, class Scalar>
Epoch collect(Loader<D, Scalar>& loader) {
  Epoch epoch;
  Batch<Scalar, float> batch;
  while (loader.next(batch)) {
    auto const size = static_cast<std::size_t>(batch.size);
    for (std::size_t i = 0; i < size * 6; ++i) {
      epoch.x.push_back(static_cast<float>(batch.x[i]));
    }
    epoch.y.insert(epoch.y.end(), batch.y, batch.y + size * 2);
    epoch.sizes.push_back(batch.size);
    epoch.firsts.push_back(batch.first);
  }
  CHECK(batch.size == 0);
  CHECK_FALSE(loader.next(batch));  // and it stays at the end
  return epoch;
}

template <class D>
Epoch collect(D const& data, LoaderOptions const& options) {
  Loader<D> loader{data, options};
  return collect(loader);
}

/// The same without a thread and without batches.
template <class D>
Epoch read_directly(D const& data, LoaderOptions const& options) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
  if (options.shuffle) {
    tandem::shuffled_order(order, options.seed, options.epoch);
  } else {
    tandem::ascending_order(order);
  }
  Epoch epoch;
  std::vector<float> x(6);
  std::vector<float> y(2);
  for (std::int64_t place = options.first; place < data.size(); ++place) {
    std::int64_t const index = order[static_cast<std::size_t>(place)];
    if (options.augment) {
      tandem::read_sample(data, index, x, y, Randomness{options.seed, options.epoch, index});
    } else {
      data.read(index, x, y);
    }
    epoch.x.insert(epoch.x.end(), x.begin(), x.end());
    epoch.y.insert(epoch.y.end(), y.begin(), y.end());
  }
  return epoch;
}

/// Counts reads, and throws at one of them.
struct Failing {
  using Target = float;
  std::int64_t fail_at = -1;
  std::chrono::milliseconds pause{0};
  std::atomic<int>* reads = nullptr;

  [[nodiscard]] std::int64_t size() const { return 1000; }
  [[nodiscard]] tandem::Shape shape() const { return tandem::vector_shape(6); }
  [[nodiscard]] int targets() const { return 2; }
  void read(std::int64_t index, std::span<float> x, std::span<float> y) const {
    if (index == fail_at) {
      throw std::runtime_error{"sample " + std::to_string(index) + " is bad"};
    }
    std::this_thread::sleep_for(pause);
    x[0] = static_cast<float>(index);
    y[0] = y[1] = 0.0F;
    if (reads != nullptr) {
      ++*reads;
    }
  }
};

static_assert(!std::is_copy_constructible_v<Loader<Data>>);
static_assert(!std::is_constructible_v<Loader<Data>, Data, LoaderOptions>, "data must outlive it");
static_assert(std::is_constructible_v<Loader<Data>, Data const&, LoaderOptions>);
static_assert(std::is_same_v<Loader<Data, double>::BatchType, Batch<double, float>>);

TEST_CASE("Loader returns what reading directly returns") {
  Data const data = numbers(23);
  for (int const batch : {1, 4, 23, 100}) {
    for (bool const shuffle : {false, true}) {
      LoaderOptions const options{.batch = batch, .seed = 3, .epoch = 2, .shuffle = shuffle};
      Epoch const epoch = collect(data, options);
      Epoch const expected = read_directly(data, options);
      CHECK(epoch.x == expected.x);
      CHECK(epoch.y == expected.y);
      CHECK(epoch == collect(data, options));
    }
  }
}

TEST_CASE("Loader orders by seed and epoch") {
  Data const data = numbers(23);
  Epoch const base = collect(data, {.batch = 4, .seed = 3, .epoch = 2});
  CHECK(base.x != collect(data, {.batch = 4, .seed = 4, .epoch = 2}).x);
  CHECK(base.x != collect(data, {.batch = 4, .seed = 3, .epoch = 3}).x);
  CHECK(base.x != collect(data, {.batch = 4, .shuffle = false}).x);
  CHECK(base.x == collect(data, {.batch = 5, .seed = 3, .epoch = 2}).x);
}

TEST_CASE("Loader makes the last batch smaller, or drops it") {
  Data const data = numbers(10);
  Epoch const all = collect(data, {.batch = 4});
  CHECK(all.sizes == std::vector<int>{4, 4, 2});
  CHECK(all.firsts == std::vector<std::int64_t>{0, 4, 8});
  Epoch const whole = collect(data, {.batch = 4, .drop_last = true});
  CHECK(whole.sizes == std::vector<int>{4, 4});
  CHECK(whole.x == std::vector<float>(all.x.begin(), all.x.begin() + 8 * 6));
  CHECK(collect(data, {.batch = 5, .drop_last = true}).sizes == std::vector<int>{5, 5});
  CHECK(collect(data, {.batch = 11, .drop_last = true}).sizes.empty());
}

TEST_CASE("Loader of nothing is at its end at once") {
  CHECK(collect(numbers(0), {.batch = 4}).sizes.empty());
  CHECK(collect(numbers(8), {.batch = 4, .first = 8}).sizes.empty());
}

TEST_CASE("Loader resumes in the middle of an epoch") {
  Data const data = numbers(23);
  auto const augmented = tandem::augment(data, tandem::RandomFlip{});
  LoaderOptions options{.batch = 4, .seed = 5, .epoch = 1};
  Epoch const all = collect(augmented, options);
  Loader interrupted{augmented, options};
  Batch<float, float> batch;
  REQUIRE(interrupted.next(batch));
  REQUIRE(interrupted.next(batch));
  options.first = batch.first + batch.size;
  Epoch const rest = collect(augmented, options);
  CHECK(rest.x == std::vector<float>(all.x.begin() + 8 * 6, all.x.end()));
  CHECK(rest.y == std::vector<float>(all.y.begin() + 8 * 2, all.y.end()));
  CHECK(rest.sizes == std::vector<int>{4, 4, 4, 3});
  CHECK(rest.firsts == std::vector<std::int64_t>{8, 12, 16, 20});
}

TEST_CASE("Loader augments for training and not for evaluation") {
  auto const data = tandem::augment(numbers(23), tandem::RandomFlip{});
  LoaderOptions options{.batch = 4, .seed = 5, .epoch = 1};
  Epoch const training = collect(data, options);
  CHECK(training.x == read_directly(data, options).x);
  options.augment = false;
  Epoch const evaluation = collect(data, options);
  CHECK(evaluation.x == read_directly(data, options).x);
  CHECK(evaluation.x != training.x);
  CHECK(evaluation.y == training.y);
}

TEST_CASE("Loader converts to double") {
  Data const data = numbers(23);
  LoaderOptions const options{.batch = 4, .seed = 5};
  Loader<Data, double> loader{data, options};
  CHECK(collect(loader) == collect(data, options));
}

TEST_CASE("Loader leaves a batch alone until the following next()") {
  Data const data = numbers(40);
  Loader loader{data, {.batch = 2, .shuffle = false}};
  Batch<float, float> batch;
  for (int i = 0; loader.next(batch); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{2});  // the thread fills what it may
    CHECK(batch.first == 2 * i);
    CHECK(batch.x[0] == static_cast<float>(12 * i) + 0.25F);
    CHECK(batch.x[11] == static_cast<float>(12 * i + 11) + 0.25F);
    CHECK(batch.y[3] == -static_cast<float>(4 * i + 3));
  }
}

TEST_CASE("Loader reads ahead by its three batches and no more") {
  std::atomic<int> reads = 0;
  Failing data;
  data.reads = &reads;
  Loader loader{data, {.batch = 10, .shuffle = false}};
  auto const settles_at = [&](int expected) {
    for (int wait = 0; wait < 2000 && reads != expected; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    return reads == expected;
  };
  CHECK(settles_at(30));
  Batch<float, float> batch;
  REQUIRE(loader.next(batch));
  CHECK(settles_at(30));  // the first is lent
  REQUIRE(loader.next(batch));
  CHECK(settles_at(40));
}

TEST_CASE("Loader throws what read throws, after the batches before it") {
  Failing data;
  data.fail_at = 57;
  Loader loader{data, {.batch = 10, .shuffle = false}};
  Batch<float, float> batch;
  for (int i = 0; i < 5; ++i) {
    REQUIRE(loader.next(batch));
    CHECK(batch.x[0] == static_cast<float>(10 * i));
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(loader.next(batch)), "sample 57 is bad",
                       std::runtime_error);
  CHECK(batch.size == 0);
  CHECK_THROWS_WITH_AS(static_cast<void>(loader.next(batch)), "sample 57 is bad",
                       std::runtime_error);
}

TEST_CASE("Loader may be destroyed at any time, and an error with it") {
  for (int taken = 0; taken < 4; ++taken) {
    Failing data;
    data.fail_at = 57;
    Loader loader{data, {.batch = 10, .shuffle = false}};
    Batch<float, float> batch;
    for (int i = 0; i < taken; ++i) {
      REQUIRE(loader.next(batch));
    }
  }
}

TEST_CASE("Loader stops reading within one sample") {
  std::atomic<int> reads = 0;
  Failing data;
  data.reads = &reads;
  data.pause = std::chrono::milliseconds{5};
  {
    Loader const loader{data, {.batch = 1000, .shuffle = false}};
    while (reads == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }
  CHECK(reads < 500);  // a batch would take 5 s
}

/// Sequences of several lengths, each of its index.
struct Sequences {
  using Input = std::int32_t;
  using Target = std::int32_t;
  [[nodiscard]] std::int64_t size() const { return 101; }
  [[nodiscard]] tandem::Shape shape() const { return tandem::tokens_shape(9); }
  [[nodiscard]] int targets() const { return 9; }
  [[nodiscard]] int length(std::int64_t index) const { return static_cast<int>(index * 7 % 9) + 1; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    std::fill(x.begin(), x.end(), static_cast<std::int32_t>(index));
    std::fill(y.begin(), y.end(), static_cast<std::int32_t>(-index - 2));
  }
};

/// More samples than an order is listed of, each of its index.
struct Millions {
  using Target = float;
  [[nodiscard]] std::int64_t size() const { return tandem::EpochOrder::most_in_table + 3; }
  [[nodiscard]] tandem::Shape shape() const { return tandem::vector_shape(1); }
  [[nodiscard]] int targets() const { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<float> /*y*/) const {
    x[0] = static_cast<float>(index);  // exact: below 2^24
  }
};

TEST_CASE("Loader reads each of many samples once, and goes on within an epoch") {
  tandem::test::Watchdog const watchdog{"Loader of many samples"};
  Millions const data;
  constexpr int batch = 1 << 18;
  auto const epoch = [&](std::int64_t first) {
    std::vector<float> all;
    Loader<Millions> loader{data, {.batch = batch, .seed = 9, .first = first}};
    for (Loader<Millions>::BatchType own; loader.next(own);) {
      all.insert(all.end(), own.x, own.x + own.size);
    }
    return all;
  };
  std::vector<float> all = epoch(0);
  std::vector<float> const rest = epoch(3 * batch);
  REQUIRE(all.size() == static_cast<std::size_t>(data.size()));
  CHECK(std::equal(rest.begin(), rest.end(), all.begin() + 3 * batch, all.end()));
  CHECK_FALSE(std::is_sorted(all.begin(), all.end()));
  std::sort(all.begin(), all.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != static_cast<float>(i)) {
      FAIL("sample " << i << " is missing, or there twice");
    }
  }
}

TEST_CASE("Loader of parts reads those of each batch, and knows the lengths of all") {
  tandem::test::Watchdog const watchdog{"Loader of parts"};
  struct Third {  // of a batch: less than one sample of some, nothing of others
    int number;
    static tandem::BatchPart of(void const* context, int size) {
      int const number = static_cast<Third const*>(context)->number;
      return {size * number / 3, size * (number + 1) / 3};
    }
  };
  Sequences const data;
  for (int const batch : {1, 2, 10, 33}) {
    for (int const threads : {1, 3}) {
      LoaderOptions options{.batch = batch, .seed = 3, .first = 4, .threads = threads};
      Loader<Sequences> whole{data, options};
      std::vector<std::unique_ptr<Third>> thirds;
      std::vector<std::unique_ptr<Loader<Sequences>>> parts;
      for (int number = 0; number < 3; ++number) {
        thirds.push_back(std::make_unique<Third>(Third{number}));
        options.parts = {&Third::of, thirds.back().get()};
        parts.push_back(std::make_unique<Loader<Sequences>>(data, options));
      }
      for (Loader<Sequences>::BatchType all; whole.next(all);) {
        int begin = 0;
        for (auto const& part : parts) {
          Loader<Sequences>::BatchType own;
          REQUIRE(part->next(own));
          CHECK(own.first == all.first);
          CHECK(own.size == all.size);
          CHECK(own.time == all.time);
          CHECK(std::equal(own.lengths, own.lengths + own.size, all.lengths));
          CHECK(own.part.begin == begin);
          CHECK(std::equal(own.x, own.x + own.part.size() * own.time, all.x + begin * own.time));
          CHECK(std::equal(own.y, own.y + own.part.size() * own.time, all.y + begin * own.time));
          begin = own.part.end;
        }
        CHECK(begin == all.size);
      }
      for (auto const& part : parts) {
        Loader<Sequences>::BatchType own;
        CHECK_FALSE(part->next(own));
      }
    }
  }
}

TEST_CASE("Loader with several threads returns what one does") {
  tandem::test::Watchdog const watchdog{"Loader with several threads"};
  auto const data = tandem::augment(numbers(203), tandem::RandomFlip{});
  for (int const batch : {1, 7, 64, 203, 500}) {
    for (bool const drop_last : {false, true}) {
      LoaderOptions options{.batch = batch, .seed = 3, .drop_last = drop_last, .first = 5};
      Epoch const one = collect(data, options);
      for (int const threads : {2, 3, 8}) {
        options.threads = threads;
        CHECK(collect(data, options) == one);
      }
    }
  }
  Sequences const sequences;
  auto const all = [&](int threads) {
    std::vector<std::int32_t> text;
    Loader<Sequences> loader{sequences, {.batch = 10, .threads = threads}};
    for (Loader<Sequences>::BatchType batch; loader.next(batch);) {
      auto const size = static_cast<std::size_t>(batch.size);
      auto const numbers = size * static_cast<std::size_t>(batch.time);
      text.push_back(batch.time);
      text.insert(text.end(), batch.x, batch.x + numbers);
      text.insert(text.end(), batch.y, batch.y + numbers);
      text.insert(text.end(), batch.lengths, batch.lengths + size);
    }
    return text;
  };
  CHECK(all(1).size() > 1000);
  CHECK(all(4) == all(1));
}

TEST_CASE("Loader with several threads reads several samples at once") {
  tandem::test::Watchdog const watchdog{"Loader reads at once"};
  /// Goes on once two threads are in it.
  struct Meeting {
    using Target = float;
    std::atomic<int>* inside;
    [[nodiscard]] std::int64_t size() const { return 2; }
    [[nodiscard]] tandem::Shape shape() const { return tandem::vector_shape(6); }
    [[nodiscard]] int targets() const { return 2; }
    void read(std::int64_t /*index*/, std::span<float> x, std::span<float> y) const {
      x[0] = y[0] = 0;
      ++*inside;
      while (*inside < 2) {
        std::this_thread::yield();
      }
    }
  };
  std::atomic<int> inside = 0;
  Meeting const data{&inside};
  Loader loader{data, {.batch = 2, .threads = 2}};
  Batch<float, float> batch;
  CHECK(loader.next(batch));
}

TEST_CASE("Loader throws the error of the first position, whichever thread meets one first") {
  tandem::test::Watchdog const watchdog{"Loader throws the first error"};
  /// All from 57 on are bad, and 57 itself takes longest.
  struct Bad : Failing {
    void read(std::int64_t index, std::span<float> x, std::span<float> y) const {
      if (index >= 57) {
        std::this_thread::sleep_for(std::chrono::milliseconds{index == 57 ? 5 : 0});
        throw std::runtime_error{"sample " + std::to_string(index) + " is bad"};
      }
      Failing::read(index, x, y);
    }
  };
  Bad const data;
  for (int run = 0; run < 20; ++run) {
    Loader loader{data, {.batch = 10, .shuffle = false, .threads = 4}};
    Batch<float, float> batch;
    for (int i = 0; i < 5; ++i) {
      REQUIRE(loader.next(batch));
      CHECK(batch.first == 10 * i);
    }
    CHECK_THROWS_WITH_AS(static_cast<void>(loader.next(batch)), "sample 57 is bad",
                         std::runtime_error);
  }
}

TEST_CASE("Loader with several threads may be destroyed at any time") {
  tandem::test::Watchdog const watchdog{"Loader with several threads is destroyed"};
  for (int taken = 0; taken < 12; ++taken) {
    Failing data;
    data.fail_at = taken % 2 == 0 ? 57 : -1;
    Loader loader{data, {.batch = 10, .shuffle = false, .threads = 1 + taken % 5}};
    Batch<float, float> batch;
    for (int i = 0; i < taken / 2; ++i) {
      static_cast<void>(i < 5 && loader.next(batch));
    }
  }
}

/// Sequences of 1 to 40 tokens, each of which is the sample's number.
struct Lines {
  using Input = std::int32_t;
  using Target = std::int32_t;
  int wanted = 4;
  [[nodiscard]] std::int64_t size() const { return 203; }
  [[nodiscard]] tandem::Shape shape() const { return tandem::tokens_shape(40); }
  [[nodiscard]] int targets() const { return 1; }
  [[nodiscard]] int length(std::int64_t index) const {
    return 1 + static_cast<int>(index * index % 40);
  }
  [[nodiscard]] int buckets() const { return wanted; }
  void read(std::int64_t index, std::span<std::int32_t> x, std::span<std::int32_t> y) const {
    std::fill(x.begin(), x.end(), static_cast<std::int32_t>(index));
    y[0] = length(index);
  }
};
static_assert(tandem::BucketedDataset<Lines>);
static_assert(!tandem::BucketedDataset<Data>);

/// The samples of an epoch's batches, and how long these are.
struct Batches {
  std::vector<std::vector<std::int32_t>> samples;
  std::vector<int> times;
  bool operator==(Batches const&) const = default;
};

Batches batches_of(Lines const& data, LoaderOptions const& options) {
  Loader<Lines> loader{data, options};
  Batches all;
  for (Batch<std::int32_t, std::int32_t> batch; loader.next(batch);) {
    all.times.push_back(batch.time);
    auto& own = all.samples.emplace_back();
    for (int i = 0; i < batch.size; ++i) {
      own.push_back(batch.x[i * batch.time]);
    }
  }
  return all;
}

TEST_CASE("Loader draws a batch within a bucket of lengths, and each sample once an epoch") {
  Lines const data;
  LoaderOptions const options{.batch = 8, .seed = 5, .epoch = 2};
  Batches const all = batches_of(data, options);
  CHECK(all.samples.size() == 26);
  CHECK(all.samples.back().size() == 3);
  std::vector<std::int32_t> seen;
  int mixed = 0;
  bool ascend = true;
  for (std::size_t b = 0; b < all.samples.size(); ++b) {
    auto const& own = all.samples[b];
    seen.insert(seen.end(), own.begin(), own.end());
    auto const bucket = [&](std::int32_t sample) { return (data.length(sample) - 1) / 10; };
    bool const one = std::all_of(own.begin(), own.end(), [&](std::int32_t sample) {
      return bucket(sample) == bucket(own.front());
    });
    mixed += one ? 0 : 1;
    CHECK(all.times[b] % 10 == 0);  // one of few lengths, for a GPU to record
    ascend = ascend && (b == 0 || all.times[b] >= all.times[b - 1]);
  }
  CHECK(mixed <= 4);  // what is left over in each bucket
  CHECK_FALSE(ascend);
  std::sort(seen.begin(), seen.end());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i] == static_cast<std::int32_t>(i));
  }
  CHECK(seen.size() == 203);
}

TEST_CASE("Loader's buckets are of seed, epoch and batch, whatever the threads and the start") {
  tandem::test::Watchdog const watchdog{"Loader with buckets"};
  Lines const data;
  LoaderOptions options{.batch = 8, .seed = 5, .epoch = 2};
  Batches const all = batches_of(data, options);
  for (int const threads : {2, 5}) {
    options.threads = threads;
    CHECK(batches_of(data, options) == all);
  }
  options.first = 80;
  Batches const rest = batches_of(data, options);
  CHECK(std::equal(rest.samples.begin(), rest.samples.end(), all.samples.begin() + 10));
  CHECK(rest.samples.size() == 16);
  CHECK_FALSE(batches_of(data, {.batch = 8, .seed = 5, .epoch = 3}) == all);
  CHECK_FALSE(batches_of(data, {.batch = 8, .seed = 6, .epoch = 2}) == all);
  CHECK(batches_of(data, {.batch = 8, .seed = 5, .epoch = 2, .drop_last = true}).samples.size() ==
        25);
  CHECK(batches_of({.wanted = 1}, options).samples.front().size() == 8);
  CHECK(batches_of(data, {.batch = 300}).times.size() == 1);
  auto const plain = batches_of(data, {.batch = 8, .shuffle = false});
  CHECK(plain.samples[1] == std::vector<std::int32_t>{8, 9, 10, 11, 12, 13, 14, 15});
  Lines const none{.wanted = 0};
  CHECK_THROWS_WITH_AS((Loader<Lines>{none, options}), Contains("buckets() must be"),
                       tandem::ContractError);
}

TEST_CASE("padding_share is what the batches of a Loader have of padding") {
  for (int const wanted : {1, 4, 40}) {
    Lines const data{.wanted = wanted};
    LoaderOptions const options{.batch = 8, .seed = 1, .drop_last = wanted == 4};
    Batches const all = batches_of(data, options);
    int rows = 0;
    int own = 0;
    for (std::size_t b = 0; b < all.samples.size(); ++b) {
      rows += all.times[b] * static_cast<int>(all.samples[b].size());
      for (std::int32_t const sample : all.samples[b]) {
        own += data.length(sample);
      }
    }
    double const share = tandem::padding_share(data, options);
    CHECK(std::fabs(share - (1.0 - static_cast<double>(own) / rows)) <= 1e-12);
    CHECK(share < (wanted == 1 ? 0.6 : wanted == 4 ? 0.3 : 0.15));
    CHECK(share > (wanted == 1 ? 0.4 : wanted == 4 ? 0.1 : -1e-12));
  }
}

TEST_CASE("Loader says so where the system does not start all of its threads") {
  tandem::test::Watchdog const watchdog{"Loader without threads"};
  if (tandem::test::FewThreads::possible) {
    Data const data = numbers(23);
    tandem::test::FewThreads const few;
    CHECK_THROWS_WITH_AS((Loader{data, {.batch = 1, .threads = 256}}),
                         Contains("a Loader reads ahead on 256 threads of its own"), tandem::Error);
  }
}

TEST_CASE("Loader checks its options") {
  Data const data = numbers(3);
  auto const refused = [&](LoaderOptions const& options, char const* sentence) {
    CHECK_THROWS_WITH_AS((Loader{data, options}), Contains(sentence), tandem::ContractError);
  };
  refused({.batch = 0}, "batch must be at least 1");
  refused({.batch = 1, .epoch = -1}, "epoch must be in [0, 2^32)");
  refused({.batch = 1, .epoch = std::int64_t{1} << 32}, "epoch must be in [0, 2^32)");
  refused({.batch = 1, .first = -1}, "first must be in [0, size of the dataset]");
  refused({.batch = 1, .first = 4}, "first must be in [0, size of the dataset]");
  refused({.batch = 1, .threads = 0}, "threads must be from 1 to 256");
  refused({.batch = 1, .threads = 257}, "threads must be from 1 to 256");
}

TEST_CASE("a Loader in a child of fork() says so, and its destructor does nothing") {
  tandem::test::Watchdog const watchdog{"fork"};
  Data const data = numbers(100);
  auto loader = std::make_unique<Loader<Data>>(data, LoaderOptions{.batch = 4, .threads = 2});
  Batch<float, float> batch;
  REQUIRE(loader->next(batch));
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(30);
    std::string text;
    try {
      static_cast<void>(loader->next(batch));
    } catch (tandem::ContractError const& error) {
      text = error.what();
    }
    loader.reset();
    ::_exit(text == "Loader::next(): this Loader was made before fork(), and its threads are in "
                    "the parent process only; make another one in the child, after fork()"
                ? 7
                : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(loader->next(batch));
}

}  // namespace loader_test
