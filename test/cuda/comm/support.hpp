// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checks that every communicator between GPUs must pass, against ranks that are host threads.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <tandem/comm/message.hpp>
#include <tandem/comm/reduction.hpp>
#include <tandem/comm/threads/communicator.hpp>
#include <tandem/core/philox.hpp>
#include <tandem/runtime/cuda/copy.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <device_array.hpp>

#include <support/watchdog.hpp>
#include "unit/comm/ranks.hpp"

namespace tandem::test {

/// f(rank) on a thread for each rank; what each threw.
template <class F>
Errors on_threads(int ranks, F const& f) {
  Errors errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        f(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return errors;
}

/// "" if no rank threw, else the first message.
inline std::string first_message(Errors const& errors) {
  for (std::exception_ptr const& error : errors) {
    if (error != nullptr) {
      return message_of<Error>(error);
    }
  }
  return {};
}

/// Which numbers the ranks bring.
enum class Numbers {
  wild,  ///< of very different sizes and signs, so that another order of adding shows
  small  ///< whole and small, so that every order of adding gives the same
};

template <class T>
std::vector<T> numbers(Numbers kind, std::size_t count, int rank, std::uint64_t seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    Random4 const r = philox(seed, RandomUse::user, i, static_cast<std::uint64_t>(rank));
    if (kind == Numbers::small) {
      values[i] = static_cast<T>(static_cast<float>(r.word[0] % 9) - 4.0F);
    } else {
      auto const scale = static_cast<float>(std::uint64_t{1} << (r.word[1] % 24));
      values[i] = static_cast<T>((uniform(r.word[0]) - 0.5F) * scale);
    }
  }
  return values;
}

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// What op over the ranks' numbers is between ranks that are threads.
template <class T, class Op>
std::vector<T> host_all_reduce(std::vector<std::vector<T>> in, Op op) {
  ThreadsGroup group{static_cast<int>(in.size())};
  auto const errors = on_ranks(group, [&](ThreadsCommunicator& end, host::Queue& stream) {
    auto& own = in[static_cast<std::size_t>(end.rank())];
    end.all_reduce(own, std::span{own}, op, stream);
  });
  CHECK(all_well(errors));
  return in[0];
}

/// Memory that a stream fills just before a collective and spoils just behind it, with no wait on
/// the host: whoever reads it too early or too late sees it.
template <class T>
class Fleeting {
 public:
  Fleeting(cuda::RankDevice& device, std::vector<T> const& values, bool unaligned = false)
      : device_{device},
        source_{device, values},
        work_{device, values.size(), {.unaligned = unaligned}},
        result_{device, values.size()} {}

  /// Freed in the order of the compute stream: after what the communication stream still does, as
  /// after an error.
  ~Fleeting() { device_.settle(device_.communication); }
  Fleeting(Fleeting const&) = delete;
  Fleeting& operator=(Fleeting const&) = delete;

  void fill() { copy(source_.data(), work_.data()); }
  void keep_and_spoil() {
    copy(work_.data(), result_.data());
    if (work_.size() > 0) {
      cuda::ScopedDevice const scope{device_.device};
      cuda::check(cudaMemsetAsync(work_.data(), 0xFF,
                                  static_cast<std::size_t>(work_.size()) * sizeof(T),
                                  device_.communication.get()));
    }
  }
  [[nodiscard]] std::span<T> span() {
    return {work_.data(), static_cast<std::size_t>(work_.size())};
  }
  [[nodiscard]] std::vector<T> result() {
    device_.communication.synchronize();
    return result_.host();
  }

 private:
  void copy(T const* from, T* to) {
    if (work_.size() > 0) {
      cuda::copy_bytes(to, from, static_cast<std::size_t>(work_.size()) * sizeof(T),
                       cudaMemcpyDeviceToDevice, device_.communication);
    }
  }
  cuda::RankDevice& device_;
  DeviceArray<T> source_;
  DeviceArray<T> work_;
  DeviceArray<T> result_;
};

// All below take `run(ranks, f)`, which calls f(communicator, device) on a thread for each rank,
// and gives what the ranks threw.

/// op, in place and out of place, twice in a row on the same memory.
template <class T, class Op, class Run>
void check_all_reduce(Run const& run, int ranks, Numbers kind, Op op,
                      std::vector<std::size_t> const& counts) {
  for (std::size_t const count : counts) {
    CAPTURE(ranks);
    CAPTURE(count);
    std::vector<std::vector<T>> in;
    for (int rank = 0; rank < ranks; ++rank) {
      in.push_back(numbers<T>(kind, count, rank, count));
    }
    std::vector<T> const expected = host_all_reduce(in, op);
    std::vector<int> right(static_cast<std::size_t>(ranks));
    auto const errors = run(ranks, [&](auto& comm, cuda::RankDevice& device) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      Fleeting<T> from{device, in[rank], count % 2 == 1};
      Fleeting<T> to{device, std::vector<T>(count), rank % 2 == 1};
      Fleeting<T> both{device, in[rank]};
      auto& stream = device.communication;
      for (int i = 0; i < 2; ++i) {
        from.fill();
        to.fill();
        both.fill();
        comm.all_reduce(from.span(), to.span(), op, stream, {"out of place", i});
        comm.all_reduce(both.span(), both.span(), op, stream, {"in place", i});
        from.keep_and_spoil();
        to.keep_and_spoil();
        both.keep_and_spoil();
        right[rank] += same_bits(to.result(), expected) ? 1 : 0;
        right[rank] += same_bits(both.result(), expected) ? 1 : 0;
        right[rank] += same_bits(from.result(), in[rank]) ? 1 : 0;
      }
    });
    CHECK(first_message(errors) == "");
    CHECK(right == std::vector<int>(static_cast<std::size_t>(ranks), 6));
  }
}

template <class T>
std::vector<T> part(std::vector<T> const& whole, std::size_t rank, std::size_t count) {
  auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(rank * count);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

/// reduce-scatter, then all-gather of what came out of it; in place and out of place.
template <class T, class Run>
void check_scatter_and_gather(Run const& run, int ranks, Numbers kind,
                              std::vector<std::size_t> const& counts) {
  auto const n = static_cast<std::size_t>(ranks);
  for (std::size_t const count : counts) {
    CAPTURE(ranks);
    CAPTURE(count);
    std::vector<std::vector<T>> in;
    for (int rank = 0; rank < ranks; ++rank) {
      in.push_back(numbers<T>(kind, n * count, rank, count + 1));
    }
    std::vector<T> const expected = host_all_reduce(in, Sum{});
    std::vector<int> right(n);
    auto const errors = run(ranks, [&](auto& comm, cuda::RankDevice& device) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      auto& stream = device.communication;
      Fleeting<T> from{device, in[rank]};
      Fleeting<T> to{device, std::vector<T>(count)};
      Fleeting<T> all{device, std::vector<T>(n * count)};
      Fleeting<T> both{device, in[rank]};
      from.fill();
      both.fill();
      comm.reduce_scatter(from.span(), to.span(), Sum{}, stream, {"out of place"});
      auto const own = both.span().subspan(rank * count, count);
      comm.reduce_scatter(both.span(), own, Sum{}, stream, {"in place"});
      from.keep_and_spoil();
      comm.all_gather(to.span(), all.span(), stream, {"out of place"});
      comm.all_gather(own, both.span(), stream, {"in place"});
      to.keep_and_spoil();
      all.keep_and_spoil();
      both.keep_and_spoil();
      right[rank] += same_bits(to.result(), part(expected, rank, count)) ? 1 : 0;
      right[rank] += same_bits(all.result(), expected) ? 1 : 0;
      right[rank] += same_bits(both.result(), expected) ? 1 : 0;
    });
    CHECK(first_message(errors) == "");
    CHECK(right == std::vector<int>(n, 3));
  }
}

template <class T, class Run>
void check_broadcast(Run const& run, int ranks) {
  std::vector<int> right(static_cast<std::size_t>(ranks));
  auto const errors = run(ranks, [&](auto& comm, cuda::RankDevice& device) {
    auto& stream = device.communication;
    for (int root = 0; root < comm.size(); ++root) {
      Fleeting<T> data{device, numbers<T>(Numbers::wild, 1001, comm.rank(), 5)};
      data.fill();
      comm.broadcast(data.span(), root, stream);
      comm.broadcast(std::span<T>{}, root, stream);
      data.keep_and_spoil();
      comm.barrier(stream);
      right[static_cast<std::size_t>(comm.rank())] +=
          same_bits(data.result(), numbers<T>(Numbers::wild, 1001, root, 5)) ? 1 : 0;
    }
  });
  CHECK(first_message(errors) == "");
  CHECK(right == std::vector<int>(static_cast<std::size_t>(ranks), ranks));
}

/// Messages around a ring, of growing and shrinking size, alone (even ranks send first) and as
/// exchanges, in which all send first.
template <class T, class Run>
void check_messages(Run const& run, int ranks) {
  std::vector<std::size_t> const counts{1, 1000, 7, 0, 4099};
  std::vector<int> right(static_cast<std::size_t>(ranks));
  auto const errors = run(ranks, [&](auto& comm, cuda::RankDevice& device) {
    auto& stream = device.communication;
    int const next = (comm.rank() + 1) % comm.size();
    int const before = (comm.rank() + comm.size() - 1) % comm.size();
    std::uint64_t number = 0;
    for (std::size_t const count : counts) {
      for (bool const at_once : {false, true}) {
        ++number;
        Fleeting<T> out{device, numbers<T>(Numbers::wild, count, comm.rank(), number)};
        Fleeting<T> in{device, std::vector<T>(count)};
        out.fill();
        if (at_once) {
          Outgoing<T> const send{out.span(), next};
          Incoming<T> const receive{in.span(), before};
          comm.exchange(std::span{&send, 1}, std::span{&receive, 1}, stream, {"ring"});
        } else if (comm.rank() % 2 == 0) {
          comm.send(out.span(), next, stream, {"ring"});
          comm.receive(in.span(), before, stream, {"ring"});
        } else {
          comm.receive(in.span(), before, stream, {"ring"});
          comm.send(out.span(), next, stream, {"ring"});
        }
        out.keep_and_spoil();
        in.keep_and_spoil();
        right[static_cast<std::size_t>(comm.rank())] +=
            same_bits(in.result(), numbers<T>(Numbers::wild, count, before, number)) ? 1 : 0;
      }
    }
  });
  CHECK(first_message(errors) == "");
  CHECK(right == std::vector<int>(static_cast<std::size_t>(ranks), 10));
}

}  // namespace tandem::test
