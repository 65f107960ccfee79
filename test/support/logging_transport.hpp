// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LoggingTransport: threads whose ranks log what goes through all their communicators, in one list
/// a rank. (RecordingTransport has a list for each communicator.)

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/comm/recording.hpp>
#include <tandem/comm/threads/transport.hpp>

namespace tandem::test {

/// A rank's communicator; @p log belongs to the rank and outlives this.
template <class C>
class Logging : public Recording<C> {
  using Base = Recording<C>;

 public:
  Logging(C communicator, std::vector<Record>& log)
      : Base{std::move(communicator), 64}, log_{&log} {}

  void all_reduce(auto&&... arguments) {
    Base::all_reduce(std::forward<decltype(arguments)>(arguments)...);
    note();
  }
  template <class T, class Op>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, Op op,
                      auto&&... arguments) {
    Base::template reduce_scatter<T>(in, out, op, std::forward<decltype(arguments)>(arguments)...);
    note();
  }
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out,
                  auto&&... arguments) {
    Base::template all_gather<T>(in, out, std::forward<decltype(arguments)>(arguments)...);
    note();
  }
  void send(auto&&... arguments) {
    Base::send(std::forward<decltype(arguments)>(arguments)...);
    note();
  }
  template <class T>
  void exchange(std::span<Outgoing<T> const> sends, std::span<Incoming<T> const> receives,
                auto&&... arguments) {
    Base::template exchange<T>(sends, receives, std::forward<decltype(arguments)>(arguments)...);
    note();
  }
  void receive(auto&&... arguments) {
    Base::receive(std::forward<decltype(arguments)>(arguments)...);
    note();
  }

 private:
  void note() {
    for (Record record : Base::log()) {
      record.label.text = kept(record.label.text);
      log_->push_back(record);
    }
    Base::clear();
  }

  /// The same text, for as long as the program runs: logs are read when the trainer is gone.
  static char const* kept(char const* text) {
    static std::mutex mutex;
    static std::set<std::string> texts;
    std::lock_guard const lock{mutex};
    return text != nullptr ? texts.insert(text).first->c_str() : nullptr;
  }

  std::vector<Record>* log_;
};

/// The logs are those of all trainers on so many ranks: clear them before a step.
template <int Ranks>
class LoggingTransport : public ThreadsTransport<Ranks> {
  using Base = ThreadsTransport<Ranks>;

 public:
  using Communicator = Logging<typename Base::Communicator>;
  using Log = std::vector<Record>;
  using Base::Base;

  [[nodiscard]] Communicator communicator(int rank) {
    return {Base::communicator(rank), log(rank)};
  }
  [[nodiscard]] Communicator communicator(int rank, int group) {
    return {Base::communicator(rank, group), log(rank)};
  }

  [[nodiscard]] static Log& log(int rank) { return logs_[static_cast<std::size_t>(rank)]; }
  static void clear() { logs_ = {}; }

 private:
  static inline std::array<Log, Ranks> logs_{};
};

/// What a log has of one kind of call, under labels of that name; "" for any.
struct Volume {
  int calls = 0;
  std::int64_t bytes = 0;

  friend bool operator==(Volume const&, Volume const&) = default;
};
inline Volume volume(std::span<Record const> log, Operation operation,
                     std::string_view label = "") {
  Volume sum;
  for (Record const& record : log) {
    if (record.operation == operation &&
        (label.empty() || label == to_string({record.label.text}))) {
      ++sum.calls;
      sum.bytes += record.bytes;
    }
  }
  return sum;
}

}  // namespace tandem::test
