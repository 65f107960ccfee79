// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// TardyTransport: ranks whose messages and sums begin late, by random times.
///
/// What is sent must not change until it has been sent, and what is received must not be read
/// before: with ranks that keep in step by chance, a program that forgets to wait computes the same
/// numbers. Here it does not.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>

#include <tandem/comm/threads/transport.hpp>

namespace tandem::fuzz {

/// Of all tardy communicators: 0, or what their random times are drawn from.
inline std::atomic<std::uint64_t> tardiness{0};

/// A communicator whose calls wait on their stream first, from 0 to 300 microseconds, every second
/// one not at all.
template <class C>
class Tardy : public C {
 public:
  using typename C::Stream;

  explicit Tardy(C communicator) : C{std::move(communicator)} {}

  template <class T, class Op>
  void all_reduce(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                  Stream& stream, Label label = {}) {
    linger(stream);
    C::all_reduce(in, out, op, stream, label);
  }
  template <class T>
  void send(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    linger(stream);
    C::send(data, peer, stream, label);
  }
  template <class T>
  void receive(std::span<T> data, int peer, Stream& stream, Label label = {}) {
    linger(stream);
    C::receive(data, peer, stream, label);
  }

 private:
  static void linger(Stream& stream) {
    std::uint64_t const seed = tardiness.load();
    if (seed == 0) {
      return;
    }
    std::uint64_t x = seed + 0x9E3779B97F4A7C15U * ++calls_;  // SplitMix64
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    if ((x & 1U) != 0U) {
      auto const microseconds = static_cast<int>((x >> 33U) % 300U);
      stream.post(
          [microseconds] { std::this_thread::sleep_for(std::chrono::microseconds{microseconds}); });
    }
  }

  static inline std::atomic<std::uint64_t> calls_{0};
};

/// @tparam Base  a transport of threads, or of processes
template <class Base>
class TardyTransport : public Base {
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

}  // namespace tandem::fuzz
