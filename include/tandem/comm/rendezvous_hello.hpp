// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What processes say to each other at a rendezvous(), and process 0's list of who has come.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/hash.hpp>

namespace tandem::detail {

inline constexpr std::size_t largest_rendezvous = 65536;

/// What a process asks process 0. Machines of the other byte order are no tandem to each other.
struct Hello {
  static constexpr std::uint64_t hello_magic = 0x74616E64656D0001;

  std::uint64_t magic = hello_magic;
  std::uint64_t token = 0;  ///< a hash of Rendezvous::token
  std::uint64_t nonce = 0;  ///< made up for this call
  std::uint64_t bytes = 0;
  std::int32_t processes = 0;
  std::int32_t process = 0;
};

/// Begins process 0's answer; `bytes` of data or of the text of a refusal follow.
struct Answer {
  static constexpr std::uint64_t answer_magic = 0x74616E64656D0002;

  std::uint64_t magic = answer_magic;
  std::uint64_t nonce = 0;  ///< that of the question
  std::uint64_t bytes = 0;
  std::uint64_t refused = 0;
};

/// A number that no other call has, other than 0.
inline std::uint64_t make_nonce() {
  std::uint64_t nonce = 0;
  if (::getentropy(&nonce, sizeof nonce) != 0 || nonce == 0) {
    auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
    nonce = hash_of(std::to_string(now) + " " + std::to_string(::getpid())) | 1U;
  }
  return nonce;
}

inline Hello hello_of(World const& world, std::size_t bytes) {
  return {.token = hash_of(world.rendezvous.token),
          .nonce = make_nonce(),
          .bytes = bytes,
          .processes = world.processes,
          .process = world.process};
}

/// Looks that are not so frequent that they would burden a file server.
inline Patience rendezvous_patience(std::chrono::milliseconds timeout) {
  return Patience{timeout, 0, std::chrono::milliseconds{20}};
}

/// "rendezvous at 'host:1234': "
inline std::string at_rendezvous(World const& world) {
  return "rendezvous at '" + world.rendezvous.address + "': ";
}

/// Process 0's view of one rendezvous: whom it has answered, and whom to answer what.
class RollCall {
 public:
  RollCall(World const& world, std::span<std::byte const> data)
      : world_{world}, data_{data}, answered_(static_cast<std::size_t>(world.processes)) {}

  /// Whether @p hello comes from a process of this program that has no answer yet. Others are
  /// ignored: they belong to another run, or to the next rendezvous of this one.
  [[nodiscard]] bool expected(Hello const& hello) const {
    return hello.magic == Hello::hello_magic && hello.token == hash_of(world_.rendezvous.token) &&
           hello.process > 0 && (hello.process >= world_.processes || !has_come(hello.process));
  }

  /// Why an expected @p hello cannot be answered, or "".
  [[nodiscard]] std::string fault(Hello const& hello) const {
    if (hello.processes != world_.processes) {
      return at_rendezvous(world_) + "process 0 was told that there are " +
             std::to_string(world_.processes) + " processes, but process " +
             std::to_string(hello.process) + " that there are " + std::to_string(hello.processes);
    }
    if (hello.process >= world_.processes || hello.bytes != data_.size()) {
      return at_rendezvous(world_) + "process " + std::to_string(hello.process) +
             " asks process 0 for " + std::to_string(hello.bytes) + " bytes instead of " +
             std::to_string(data_.size()) + ": do all processes run the same program?";
    }
    return {};
  }

  /// The bytes of the answer to @p hello.
  [[nodiscard]] std::vector<std::byte> answer(Hello const& hello, std::string const& fault) const {
    std::span<std::byte const> const body =
        fault.empty() ? data_ : std::as_bytes(std::span{fault.data(), fault.size()});
    Answer const head{
        .nonce = hello.nonce, .bytes = body.size(), .refused = fault.empty() ? 0U : 1U};
    std::vector<std::byte> bytes(sizeof head + body.size());
    std::memcpy(bytes.data(), &head, sizeof head);
    std::size_t at = sizeof head;
    for (std::byte const byte : body) {  // g++ 12 sees memcpy() overflow here
      bytes[at++] = byte;
    }
    return bytes;
  }

  void note(Hello const& hello) { answered_[static_cast<std::size_t>(hello.process)] = true; }
  [[nodiscard]] bool has_come(int process) const {
    return answered_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool complete() const { return missing().empty(); }

  /// @throws TimeoutError  always
  [[noreturn]] void time_out(std::chrono::milliseconds timeout) const {
    std::vector<int> const who = missing();
    std::string text = who.size() == 1 ? "process " : "processes ";
    for (std::size_t i = 0; i < who.size(); ++i) {
      text += (i == 0 ? "" : i + 1 == who.size() ? " and " : ", ") + std::to_string(who[i]);
    }
    throw TimeoutError{at_rendezvous(world_) + text + " of " + std::to_string(world_.processes) +
                       " did not come within " + to_string(timeout)};
  }

 private:
  [[nodiscard]] std::vector<int> missing() const {
    std::vector<int> who;
    for (int process = 1; process < world_.processes; ++process) {
      if (!has_come(process)) {
        who.push_back(process);
      }
    }
    return who;
  }

  World const& world_;
  std::span<std::byte const> data_;
  std::vector<bool> answered_;
};

/// What a process takes from an answer to its @p hello. Whether it is one.
/// @throws ContractError  process 0 refuses
inline bool take_answer(Hello const& hello, std::span<std::byte const> answer,
                        std::span<std::byte> data) {
  Answer head;
  if (answer.size() < sizeof head) {
    return false;
  }
  std::memcpy(&head, answer.data(), sizeof head);
  auto const body = answer.subspan(sizeof head);
  if (head.magic != Answer::answer_magic || head.nonce != hello.nonce ||
      head.bytes != body.size()) {
    return false;
  }
  if (head.refused != 0) {
    throw ContractError{std::string{reinterpret_cast<char const*>(body.data()), body.size()}};
  }
  if (body.size() != data.size()) {
    return false;
  }
  if (!body.empty()) {
    std::memcpy(data.data(), body.data(), body.size());
  }
  return true;
}

}  // namespace tandem::detail
