// SPDX-License-Identifier: Apache-2.0
// ThreadsCommunicator when all goes well: the right bits, whoever comes first.

#include <tandem/comm/threads/communicator.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include <tandem/core/philox.hpp>

#include "ranks.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace threads_test {

/// Numbers of very different sizes and signs, so that another order of adding shows.
template <class T>
std::vector<T> numbers(std::size_t count, int rank, std::uint64_t seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    Random4 const r = philox(seed, RandomUse::user, i, static_cast<std::uint64_t>(rank));
    auto const scale = static_cast<T>(std::uint64_t{1} << (r.word[1] % 24));
    values[i] = (static_cast<T>(uniform(r.word[0])) - static_cast<T>(0.5)) * scale;
  }
  return values;
}

template <class T>
T tree_sum(std::vector<std::vector<T>> const& in, std::size_t first, std::size_t n, std::size_t i) {
  if (n == 1) {
    return in[first][i];
  }
  std::size_t half = 1;
  while (half * 2 < n) {
    half *= 2;
  }
  return tree_sum(in, first, half, i) + tree_sum(in, first + half, n - half, i);
}

template <class T>
std::vector<T> tree_sum(std::vector<std::vector<T>> const& in) {
  std::vector<T> sum(in[0].size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = tree_sum(in, 0, in.size(), i);
  }
  return sum;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Gives way to the other threads, a number of times that differs by rank and call.
// Seldom: beside a busy program each yield lasts as long as that program's turn.
void stray(int rank, int call) {
  if (call % 16 != 0) {
    return;
  }
  Random4 const r = philox(7, RandomUse::user, static_cast<std::uint64_t>(call),
                           static_cast<std::uint64_t>(rank));
  for (std::uint32_t n = below(r.word[0], 20); n > 0; --n) {
    std::this_thread::yield();
  }
}

std::size_t index(ThreadsCommunicator const& end) { return static_cast<std::size_t>(end.rank()); }

TEST_CASE_TEMPLATE("all_reduce has the bits of the tree, in place and out of place", T, float,
                   double) {
  test::Watchdog const watchdog{"all_reduce"};
  for (int ranks = 1; ranks <= 8; ++ranks) {
    auto const n = static_cast<std::size_t>(ranks);
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, n - 1, std::size_t{17},
                                    std::size_t{4097}, std::size_t{1000000}}) {
      CAPTURE(ranks);
      CAPTURE(count);
      std::vector<std::vector<T>> in(n);
      for (std::size_t rank = 0; rank < n; ++rank) {
        in[rank] = numbers<T>(count, static_cast<int>(rank), count);
      }
      auto const expected = tree_sum(in);
      std::vector<std::vector<T>> out(n, std::vector<T>(count));
      auto in_place = in;
      ThreadsGroup group{ranks};
      auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
        std::size_t const r = index(end);
        end.all_reduce(in[r], std::span{out[r]}, Sum{}, stream);
        end.all_reduce(in_place[r], std::span{in_place[r]}, Sum{}, stream);
      });
      CHECK(test::all_well(errors));
      for (std::size_t rank = 0; rank < n; ++rank) {
        CHECK(same_bits(out[rank], expected));
        CHECK(same_bits(in_place[rank], expected));
      }
    }
  }
}

TEST_CASE("the test's numbers tell one order from another") {
  std::vector<std::vector<float>> in;
  for (int rank = 0; rank < 4; ++rank) {
    in.push_back(numbers<float>(1000, rank, 1));
  }
  std::vector<float> one_by_one(1000);
  for (std::size_t i = 0; i < 1000; ++i) {
    one_by_one[i] = ((in[0][i] + in[1][i]) + in[2][i]) + in[3][i];
  }
  CHECK_FALSE(same_bits(one_by_one, tree_sum(in)));
}

TEST_CASE("thousands of repetitions with ranks that stray") {
  test::Watchdog const watchdog{"repetitions"};
  constexpr int repetitions = 2000;
  for (int const ranks : {2, 3, 5}) {
    auto const n = static_cast<std::size_t>(ranks);
    std::vector<std::vector<float>> in(n);
    for (std::size_t rank = 0; rank < n; ++rank) {
      in[rank] = numbers<float>(101, static_cast<int>(rank), 3);
    }
    auto const expected = tree_sum(in);
    std::vector<int> wrong(n);
    ThreadsGroup group{ranks};
    auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
      std::size_t const r = index(end);
      std::vector<float> out(101);
      for (int i = 0; i < repetitions; ++i) {
        stray(end.rank(), i);
        end.all_reduce(in[r], std::span{out}, Sum{}, stream);
        stream.synchronize();
        wrong[r] += same_bits(out, expected) ? 0 : 1;
        out.assign(101, 0.0F);
      }
    });
    CHECK(test::all_well(errors));
    CHECK(wrong == std::vector<int>(n));
  }
}

TEST_CASE("many collectives in flight, waited for one by one") {
  test::Watchdog const watchdog{"in flight"};
  constexpr std::size_t buckets = 300;  // more than a stream has places
  ThreadsGroup group{3};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    std::vector<std::vector<int>> data(buckets, std::vector<int>(7, end.rank() + 1));
    std::vector<host::Queue::Ticket> tickets;
    for (std::size_t b = 0; b < buckets; ++b) {
      end.all_reduce(data[b], std::span{data[b]}, Sum{}, stream, {"bucket", static_cast<int>(b)});
      tickets.push_back(stream.last());
    }
    int wrong = 0;
    for (std::size_t b = 0; b < buckets; ++b) {
      stream.wait(tickets[b]);
      wrong += data[b] == std::vector<int>(7, 6) ? 0 : 1;
    }
    CHECK(wrong == 0);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("Max, with a NaN on one rank") {
  test::Watchdog const watchdog{"Max"};
  ThreadsGroup group{3};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    float const nan = std::numeric_limits<float>::quiet_NaN();
    float const rank = static_cast<float>(end.rank());
    std::vector<float> data{rank, -rank, end.rank() == 1 ? nan : rank};
    end.all_reduce(data, std::span{data}, Max{}, stream);
    stream.synchronize();
    CHECK(data[0] == 2.0F);
    CHECK(data[1] == 0.0F);
    CHECK(data[2] != data[2]);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("broadcast from every root, and of nothing") {
  test::Watchdog const watchdog{"broadcast"};
  for (int ranks = 1; ranks <= 5; ++ranks) {
    ThreadsGroup group{ranks};
    auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
      for (int root = 0; root < end.size(); ++root) {
        auto data = numbers<double>(1001, end.rank(), 5);
        end.broadcast(std::span{data}, root, stream);
        end.broadcast(std::span<double>{}, root, stream);
        stream.synchronize();
        CHECK(same_bits(data, numbers<double>(1001, root, 5)));
      }
    });
    CHECK(test::all_well(errors));
  }
}

TEST_CASE("no stream passes a barrier before all have reached it") {
  test::Watchdog const watchdog{"barrier"};
  constexpr int ranks = 4;
  ThreadsGroup group{ranks};
  std::atomic<int> arrived{0};
  auto const errors = test::on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    int early = 0;
    for (int i = 0; i < 500; ++i) {
      stray(end.rank(), i);
      arrived.fetch_add(1, std::memory_order_relaxed);
      end.barrier(stream);
      stream.synchronize();
      early += arrived.load(std::memory_order_relaxed) >= ranks * (i + 1) ? 0 : 1;
    }
    CHECK(early == 0);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("a grid of groups: rows, then columns") {
  test::Watchdog const watchdog{"grid"};
  ThreadsGroup all{4, {.name = "all"}};
  ThreadsGroup rows[] = {ThreadsGroup{2, {.name = "row 0"}}, ThreadsGroup{2, {.name = "row 1"}}};
  ThreadsGroup columns[] = {ThreadsGroup{2}, ThreadsGroup{2}};
  auto const errors = test::on_ranks(all, [&](ThreadsCommunicator& end, host::Queue& stream) {
    int const row = end.rank() / 2;
    int const column = end.rank() % 2;
    ThreadsCommunicator in_row = rows[row].communicator(column);
    ThreadsCommunicator in_column = columns[column].communicator(row);
    std::vector<int> data{1 << end.rank()};
    in_row.all_reduce(data, std::span{data}, Sum{}, stream);
    stream.synchronize();
    CHECK(data[0] == (row == 0 ? 3 : 12));
    in_column.all_reduce(data, std::span{data}, Sum{}, stream);
    stream.synchronize();
    CHECK(data[0] == 15);
  });
  CHECK(test::all_well(errors));
}

TEST_CASE("shares cover the elements once, in whole cache lines") {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (std::size_t const count : {0U, 1U, 15U, 16U, 17U, 1000U, 1024U}) {
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto const [begin, end] = detail::share_of(rank, ranks, count, sizeof(float));
        CHECK(begin == next);
        CHECK(begin <= end);
        CHECK((begin % 16 == 0 || begin == count));
        next = end;
      }
      CHECK(next == count);
    }
  }
}

}  // namespace threads_test
}  // namespace tandem
