// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RollCall: process 0's list of who has come to a rendezvous, and what it answers to whom.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/stall.hpp>

namespace tandem::detail {

/// The first refusal at once, then one line a second at most: who floods process 0 does not flood
/// its log.
class RefusalLog {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param where  what each line begins with
  /// @param write  takes a line; null: nothing is said
  RefusalLog(std::string where, void (*write)(char const*))
      : where_{std::move(where)}, write_{write} {}

  TANDEM_ONCE TANDEM_COLD void say(std::string const& what, Clock::time_point now = Clock::now());

 private:
  std::string where_;
  void (*write_)(char const*);
  std::optional<Clock::time_point> said_{};
  std::int64_t unsaid_ = 0;
};

/// Process 0's view of one rendezvous. Whoever is refused is logged, remembered for the message of
/// a time-out, and changes nothing else: process 0 goes on until all have come, or time is up.
class RollCall {
 public:
  /// @param log  takes a line of a refusal; null: none is said
  RollCall(World const& world, RendezvousKey const& key, std::span<std::byte const> data,
           void (*log)(char const*) = &write_to_stderr)
      : world_{world},
        key_{key},
        data_{data},
        has_come_(static_cast<std::size_t>(world.processes)),
        is_told_(static_cast<std::size_t>(world.processes)),
        log_{at_rendezvous(world), log} {}

  /// What process 0 says to a hello.
  struct Reply {
    std::vector<std::byte> bytes{};  ///< empty: nothing
    int process = 0;                 ///< to note() when they have arrived; 0: nobody
  };

  /// The reply to one who has proved that it knows the token. None to a process that has come: it
  /// is early for the next rendezvous, or there are two of its number. None, too, to one that is
  /// told() already: its thanks may be late, and this may be its next rendezvous.
  TANDEM_ONCE [[nodiscard]] Reply reply(Hello const& hello);

  /// The reply to one who has not.
  TANDEM_ONCE [[nodiscard]] Reply reply_to_stranger();

  /// How many could not prove that they belong here.
  TANDEM_ONCE void note_strangers(std::int64_t count);

  /// Whether @p process is being told at the moment.
  void told(int process, bool is) { is_told_[static_cast<std::size_t>(process)] = is; }

  void note(int process) { has_come_[static_cast<std::size_t>(process)] = true; }
  [[nodiscard]] bool has_come(int process) const {
    return has_come_[static_cast<std::size_t>(process)];
  }
  [[nodiscard]] bool complete() const { return missing().empty(); }

  /// @throws TimeoutError  always
  TANDEM_ONCE [[noreturn]] void time_out(std::chrono::milliseconds timeout) const;

 private:
  TANDEM_ONCE [[nodiscard]] std::vector<std::byte> signed_answer(Admission verdict,
                                                                 Hello const& hello) const;

  TANDEM_ONCE [[nodiscard]] std::vector<int> missing() const;

  World const& world_;
  RendezvousKey const& key_;
  std::span<std::byte const> data_;
  std::vector<bool> has_come_;
  std::vector<bool> is_told_;
  std::string fault_{};
  std::int64_t strangers_ = 0;
  RefusalLog log_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void RefusalLog::say(std::string const& what, Clock::time_point now) {
  if (write_ == nullptr) {
    return;
  }
  if (said_ && now - *said_ < std::chrono::seconds{1}) {
    ++unsaid_;
    return;
  }
  std::string const more = unsaid_ == 0 ? "" : " as " + std::to_string(unsaid_) + " before";
  write_((where_ + what + "; refused" + more + ", and process 0 goes on waiting\n").c_str());
  said_ = now;
  unsaid_ = 0;
}

TANDEM_ONCE RollCall::Reply RollCall::reply(Hello const& hello) {
  Admission verdict = Admission::welcome;
  if (hello.processes != world_.processes || hello.process < 1 ||
      hello.process >= world_.processes) {
    verdict = Admission::other_processes;
  } else if (has_come(hello.process) || is_told_[static_cast<std::size_t>(hello.process)]) {
    return {};
  } else if (hello.version != TANDEM_VERSION) {
    verdict = Admission::other_version;
  } else if (hello.bytes != data_.size()) {
    verdict = Admission::other_bytes;
  }
  if (verdict == Admission::welcome) {
    return {signed_answer(verdict, hello), hello.process};
  }
  fault_ = fault_text(verdict, hello, world_.processes, data_.size(), TANDEM_VERSION);
  log_.say(fault_);
  return {signed_answer(verdict, hello), 0};
}

TANDEM_ONCE RollCall::Reply RollCall::reply_to_stranger() {
  note_strangers(strangers_ + 1);
  Answer const answer{.verdict = Admission::unproven};
  auto const bytes = bytes_of(answer);
  return {{bytes.begin(), bytes.end()}, 0};
}

TANDEM_ONCE void RollCall::note_strangers(std::int64_t count) {
  if (count > strangers_) {
    log_.say("someone who came did not prove that they belong to this program");
  }
  strangers_ = count;
}

TANDEM_ONCE void RollCall::time_out(std::chrono::milliseconds timeout) const {
  std::vector<int> const who = missing();
  std::string text = who.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < who.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == who.size() ? " and " : ", ") + std::to_string(who[i]);
  }
  text += " of " + std::to_string(world_.processes) + " did not come within " + to_string(timeout);
  if (!fault_.empty()) {
    text += "; " + fault_;
  }
  if (strangers_ > 0) {
    text += "; " + std::to_string(strangers_) +
            " who came did not prove that they belong to this program, and were refused (if they "
            "do, " +
            share_a_token + ")";
  }
  throw TimeoutError{at_rendezvous(world_) + text};
}

TANDEM_ONCE std::vector<std::byte> RollCall::signed_answer(Admission verdict,
                                                           Hello const& hello) const {
  Answer head{.nonce = make_nonce(),
              .bytes = data_.size(),
              .processes = world_.processes,
              .verdict = verdict};
  std::vector<std::byte> hidden;
  if (verdict == Admission::welcome) {
    hidden.assign(data_.begin(), data_.end());
    key_.hide(hidden, head.nonce);
  }
  head.signature = key_.sign(head, hello.nonce, hidden);
  auto const begin = bytes_of(head);
  std::vector<std::byte> bytes(begin.size() + hidden.size());
  std::ranges::copy(hidden, std::ranges::copy(begin, bytes.begin()).out);
  return bytes;
}

TANDEM_ONCE std::vector<int> RollCall::missing() const {
  std::vector<int> who;
  for (int process = 1; process < world_.processes; ++process) {
    if (!has_come(process)) {
      who.push_back(process);
    }
  }
  return who;
}

}  // namespace tandem::detail

#endif
