// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// detail::Mail: the messages between ranks that are threads of one process.
///
/// Each pair of ranks has boxes for each direction, with room for one message each, which they take
/// in turns: a sender waits only until the next box is free, a receiver until it is full.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <tandem/comm/threads/call.hpp>
#include <tandem/comm/threads/wait.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// Where one message at a time lies between its sender and its receiver.
struct MailBox {
  enum class State { free, filling, full, draining };

  State state = State::free;
  Call call{};
  int place = 0;  ///< among the boxes of its pair
  std::unique_ptr<std::byte[]> bytes{};
  std::size_t capacity = 0;

  /// Room for @p wanted bytes; allocates when a message is larger than all before it.
  TANDEM_ONCE std::byte* room(std::size_t wanted);
};

/// All boxes of a group. What fill and drain do to a box is the communicator's affair.
class Mail {
 public:
  /// @param places  messages that may wait for a receiver
  Mail(GroupWait& wait, int ranks, int places = 1)
      : wait_{wait},
        ranks_{ranks},
        places_{places},
        lines_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

  /// Waits until the box from @p rank to @p peer is free, and calls fill(box).
  /// @param where  the group's words for its ranks; it is told of each message; all under the lock
  template <class Fill, class Where>
  void send(int rank, int peer, Call const& call, Fill const& fill, Where const& where) {
    GroupWait::Lock lock = wait_.lock();
    wait_.check();
    Inside const inside{ranks_inside_};
    Line& line = line_of(rank, peer);
    MailBox& box = line.box(line.sent);
    wait_.wait(
        lock, [&box] { return box.state == MailBox::State::free; }, Awaited{[&](WaitingRank& wait) {
          where.waits(wait, rank, call);
          wait.missing.push_back(
              {where.number(peer),
               where.who(peer) + " did not receive message #" + std::to_string(line.received + 1) +
                   in_brackets(box.call.label) + " from " + where.who(rank) +
                   ", which waits to send the next one" + in_brackets(call.label) + where.within() +
                   where.last_seen(peer)});
        }});
    run(lock, box, MailBox::State::filling, fill, MailBox::State::free, MailBox::State::full);
    box.call = call;
    where.note(rank, call, ++line.sent);
  }

  /// Waits until the box from @p peer to @p rank is full, and calls drain(box).
  /// @throws ContractError  the message has another type or number of elements; it is lost
  template <class Drain, class Where>
  void receive(int rank, int peer, Call const& call, Drain const& drain, Where const& where) {
    GroupWait::Lock lock = wait_.lock();
    wait_.check();
    Inside const inside{ranks_inside_};
    Line& line = line_of(peer, rank);
    MailBox& box = line.box(line.received);
    wait_.wait(
        lock, [&box] { return box.state == MailBox::State::full; }, Awaited{[&](WaitingRank& wait) {
          where.waits(wait, rank, call);
          wait.missing.push_back({where.number(peer),
                                  where.who(peer) + " did not send message #" +
                                      std::to_string(line.sent + 1) + ", which " + where.who(rank) +
                                      " waits to receive" + in_brackets(call.label) +
                                      where.within() + where.last_seen(peer)});
        }});
    ++line.received;
    if (box.call.type != call.type || box.call.count != call.count) {
      box.state = MailBox::State::free;
      wait_.notify();
      throw ContractError{where.prefix() + where.who(peer) + " sent message #" +
                          std::to_string(line.received) + in_brackets(box.call.label) + " of " +
                          std::to_string(box.call.count) + " elements, but " + where.who(rank) +
                          " receives" + in_brackets(call.label) + " " + std::to_string(call.count) +
                          " elements" + (box.call.count == call.count ? " of another type" : "") +
                          "; both ends must name the same"};
    }
    run(lock, box, MailBox::State::draining, drain, MailBox::State::free, MailBox::State::free);
    where.note(rank, call, line.received);
  }

  /// Whether no rank sends or receives. @pre the caller has the lock
  [[nodiscard]] bool idle() const { return ranks_inside_ == 0; }

  /// Drops what lies in the boxes. @pre idle(), and the caller has the lock
  TANDEM_ONCE void clear();

 private:
  /// The boxes of a pair and direction.
  struct Line {
    std::vector<MailBox> boxes;  // none before the first message
    std::uint64_t sent = 0;
    std::uint64_t received = 0;

    MailBox& box(std::uint64_t number) { return boxes[number % boxes.size()]; }
  };

  /// Counts a rank for the length of a call; made and destroyed under the lock.
  class [[nodiscard]] Inside {
   public:
    [[nodiscard]] explicit Inside(int& count) : count_{count} { ++count_; }
    Inside(Inside const&) = delete;
    Inside& operator=(Inside const&) = delete;
    ~Inside() { --count_; }

   private:
    int& count_;
  };

  /// work(box) without the lock.
  template <class Work>
  void run(GroupWait::Lock& lock, MailBox& box, MailBox::State meanwhile, Work const& work,
           MailBox::State failed, MailBox::State done) {
    box.state = meanwhile;
    lock.unlock();
    try {
      work(box);
    } catch (...) {
      lock.lock();
      box.state = failed;
      wait_.notify();
      throw;
    }
    lock.lock();
    box.state = done;
    wait_.notify();
  }

  TANDEM_ONCE Line& line_of(int from, int to);

  GroupWait& wait_;
  int ranks_;
  int places_;
  int ranks_inside_ = 0;
  std::vector<Line> lines_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::byte* MailBox::room(std::size_t wanted) {
  if (wanted > capacity) {
    std::byte* const more = new (std::nothrow) std::byte[wanted];
    if (more == nullptr) {
      throw Error{"out of memory: a message asks for " + std::to_string(wanted) +
                  " bytes; use a smaller batch or more microbatches"};
    }
    bytes.reset(more);
    capacity = wanted;
  }
  return bytes.get();
}

TANDEM_ONCE void Mail::clear() {
  for (Line& line : lines_) {
    for (MailBox& box : line.boxes) {
      box.state = MailBox::State::free;
    }
    line.sent = line.received;
  }
}

TANDEM_ONCE Mail::Line& Mail::line_of(int from, int to) {
  Line& line = lines_[static_cast<std::size_t>(from * ranks_ + to)];
  if (line.boxes.empty()) {
    line.boxes.resize(static_cast<std::size_t>(places_));
    for (int place = 0; place < places_; ++place) {
      line.boxes[static_cast<std::size_t>(place)].place = place;
    }
  }
  return line;
}

}  // namespace tandem::detail

#endif
