// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lifeline: a connection that the processes of a program keep, beside all that they compute with,
/// so that everyone learns at once what went wrong first.

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/addresses.hpp>
#include <tandem/comm/lifeline/door.hpp>
#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/judge.hpp>
#include <tandem/comm/lifeline/meeting.hpp>
#include <tandem/comm/lifeline/options.hpp>
#include <tandem/comm/lifeline/peer.hpp>
#include <tandem/comm/lifeline/peers.hpp>
#include <tandem/comm/lifeline/tree.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/own_process.hpp>
#include <tandem/core/printable.hpp>

namespace tandem {

/// One process's end. All processes make theirs; a thread of its own serves it.
///
/// A process that ends without a word (killed, crashed, `_exit`) is noticed by the end of its
/// connection, in milliseconds; one that is stopped or cut off by its silence; one that ends in
/// order as soon as others begin what it will take no part in. What a rank's thread
/// reports goes to process 0, which takes the first and tells all, so that all have one verdict;
/// whoever is cut off from it has its own. Before process 0 takes a time-out it asks all of them
/// who waits for whom.
///
/// Cost: 32 bytes and two short texts each way a beat and connection; process 0 has at most 512
/// of them, in a tree 64.
class Lifeline {
 public:
  /// Returns when all processes are connected. Uses the rendezvous once.
  /// @throws TimeoutError  process 0, or the process between, did not answer
  /// @throws AbortedError  a process has ended meanwhile, or did not come; it is named
  /// @throws Error         the system has no more sockets or threads
  TANDEM_ONCE Lifeline(World const& world, LifelineCalls calls,
                       LifelineOptions const& options = {});

  Lifeline(Lifeline const&) = delete;
  Lifeline& operator=(Lifeline const&) = delete;

  /// Says goodbye, unless an exception passes: then the others learn that this process ends. A
  /// child of fork() says nothing.
  ~Lifeline() {
    if (process_.is_own() && std::uncaught_exceptions() > exceptions_) {
      report_process("ends because of an error outside of its ranks");
    }
    end();
  }

  /// An exception that all processes throw is about to end this: it is none's failure.
  void leave_in_order() noexcept { exceptions_ = std::numeric_limits<int>::max(); }

  /// A rank of this process has failed. From any thread; the first failure of all counts.
  void report(int rank, std::string_view what) { add({.rank = rank, .what = std::string{what}}); }
  /// A rank of this process has waited too long, as @p what says, and still waits: until all have
  /// been asked who is to blame.
  void report_time_out(int rank, std::string_view what) {
    add({.rank = rank, .what = std::string{what}, .timed_out = true});
  }
  /// This process as a whole.
  void report_process(std::string_view what) { add({.rank = -1, .what = std::string{what}}); }

  /// This process begins one more work that all processes do together, such as a step; each begins
  /// as many. By one thread.
  TANDEM_ONCE void begin_work() noexcept;

  /// Says goodbye before the end. By one thread.
  void leave() noexcept { end(); }

  /// What went wrong first, if anything has. From any thread.
  [[nodiscard]] std::optional<LifelineVerdict> verdict() const {
    std::lock_guard const lock{mutex_};
    return verdict_;
  }

 private:
  using Peer = detail::LifelinePeer;
  using Role = Peer::Role;
  using Frame = detail::Frame;
  using FrameKind = detail::FrameKind;
  using Clock = std::chrono::steady_clock;

  TANDEM_ONCE void add(LifelineVerdict report);

  void wake() noexcept {
    char const byte = 0;
    [[maybe_unused]] auto const wrote = ::write(wake_[1], &byte, 1);  // full: it wakes anyway
  }

  TANDEM_ONCE void await_all();

  TANDEM_ONCE void end() noexcept;

  // The lifeline's thread.

  TANDEM_ONCE void serve();

  TANDEM_ONCE void wait(std::vector<::pollfd>& entries, Clock::time_point until);

  // @p i is kept: handling a frame may add nothing to peers_.
  TANDEM_ONCE void hear(std::size_t i);

  TANDEM_ONCE void handle(Peer& peer, Frame const& frame);

  // Whether this process has begun work without one that has left. All begin the same works, so
  // each that goes on finds out by itself.
  TANDEM_ONCE void look_who_left();

  TANDEM_ONCE void look_whether_all_are_ready();

  TANDEM_ONCE void begin();

  // Whether this end is to be closed.
  TANDEM_ONCE bool take_reports();

  TANDEM_ONCE void beat(Clock::time_point now, Clock::duration since_begin);

  void tell(LifelineVerdict const& verdict) {
    std::lock_guard const lock{mutex_};
    verdict_ = verdict;
    changed_.notify_all();
  }

  LifelineOptions options_;
  detail::LifelineTree tree_;
  LifelineCalls calls_;
  int exceptions_;
  std::array<int, 2> wake_{-1, -1};
  std::atomic<std::uint64_t> works_{0};
  std::atomic<bool> somebody_left_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;         // verdict_, begun_
  std::optional<LifelineVerdict> verdict_;  // by mutex_, and so the next three
  bool begun_ = false;
  std::vector<LifelineVerdict> reports_;
  bool stops_ = false;

  // The lifeline's thread's own.
  detail::LifelinePeers peers_;
  detail::LifelineDoor door_;
  detail::LifelineJudge judge_;
  detail::OwnProcess process_;
  detail::UnlessForked<std::thread> thread_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE Lifeline::Lifeline(World const& world, LifelineCalls calls,
                               LifelineOptions const& options)
    : options_{options},
      tree_{world.processes, options.few, options.width},
      calls_{std::move(calls)},
      exceptions_{std::uncaught_exceptions()},
      peers_{.process = world.process, .machine = detail::machine_name()},
      door_{tree_, peers_},
      judge_{peers_, world.processes, options_, calls_,
             [this](LifelineVerdict const& verdict) { tell(verdict); }} {
  if (::pipe2(wake_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw Error{"lifeline: the system has no more descriptors"};
  }
  try {
    detail::LifelineMeeting met =
        detail::meet_by_lifeline(world, tree_, peers_.machine, options_.timeout);
    door_.open(met.key, std::move(met.listener));
    if (met.parent) {
      peers_.all.push_back(std::move(*met.parent));
    }
    *thread_ = std::thread{[this] { serve(); }};
    await_all();
  } catch (...) {
    end();
    throw;
  }
}

TANDEM_ONCE void Lifeline::begin_work() noexcept {
  works_.fetch_add(1);
  if (somebody_left_.load()) {
    wake();
  }
}

TANDEM_ONCE void Lifeline::add(LifelineVerdict report) {
  process_.expect_own("report()", "Lifeline");
  report.process = peers_.process;
  report.machine = peers_.machine;
  report.what = detail::printable(report.what, detail::FrameHead::most);
  {
    std::lock_guard const lock{mutex_};
    reports_.push_back(std::move(report));
  }
  wake();
}

TANDEM_ONCE void Lifeline::await_all() {
  std::unique_lock lock{mutex_};
  auto const limit = options_.timeout + std::chrono::seconds{5};  // process 0 says who is missing
  changed_.wait_for(lock, limit, [this] { return begun_ || verdict_; });
  if (begun_) {
    return;
  }
  if (verdict_) {
    throw AbortedError{"lifeline: " + verdict_->reason()};
  }
  throw TimeoutError{"lifeline: the processes were not all connected within " +
                     detail::to_string(options_.timeout)};
}

TANDEM_ONCE void Lifeline::end() noexcept {
  if (process_.is_own() && thread_->joinable()) {
    {
      std::lock_guard const lock{mutex_};
      stops_ = true;
    }
    wake();
    thread_->join();
  }
  for (int& descriptor : wake_) {
    if (descriptor >= 0) {
      static_cast<void>(::close(std::exchange(descriptor, -1)));
    }
  }
}

TANDEM_ONCE void Lifeline::serve() {
  Clock::time_point const first_look = Clock::now();
  Clock::time_point last_look = first_look;
  Clock::time_point next_beat = first_look + options_.beat;
  std::vector<::pollfd> entries;
  look_whether_all_are_ready();  // of no children
  for (std::optional<Clock::time_point> end;;) {
    wait(entries, std::min({next_beat, end.value_or(next_beat), judge_.next_look()}));
    Clock::time_point const now = Clock::now();
    if (now - last_look > 4 * options_.beat) {  // this process itself stood still
      peers_.excuse(now);
    }
    last_look = now;
    for (std::size_t i = 0; i < entries.size() - 2; ++i) {
      if (entries[i + 2].revents != 0) {
        hear(i);
      }
    }
    if (entries[1].revents != 0) {
      door_.welcome();
    }
    bool const stops = take_reports();
    look_who_left();
    if (now >= next_beat) {
      next_beat = now + options_.beat;
      beat(now, now - first_look);
    }
    judge_.look(now);
    if (stops && !end) {
      end = now + std::chrono::seconds{1};
      peers_.say_goodbye(works_.load(), judge_.board());
    }
    bool const sent = peers_.send();
    if (end && (sent || now >= *end)) {
      return;
    }
  }
}

TANDEM_ONCE void Lifeline::wait(std::vector<::pollfd>& entries, Clock::time_point until) {
  entries.assign({{wake_[0], POLLIN, 0}, {door_.listener().get(), POLLIN, 0}});
  for (Peer const& peer : peers_.all) {
    entries.push_back(
        {peer.socket.get(), static_cast<short>(peer.out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
  }
  auto const left =
      std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  int const limit = static_cast<int>(std::clamp<long long>(left + 1, 0, 60000));
  if (::poll(entries.data(), static_cast<::nfds_t>(entries.size()), limit) < 0) {
    for (::pollfd& entry : entries) {
      entry.revents = 0;
    }
  }
  std::array<char, 64> bytes;
  while (::read(wake_[0], bytes.data(), bytes.size()) > 0) {
  }
}

TANDEM_ONCE void Lifeline::hear(std::size_t i) {
  Peer& peer = peers_.all[i];
  bool const open = peer.read();
  Frame frame;
  detail::Parsed parsed = detail::Parsed::partly;
  while (peer.role != Role::gone &&
         (parsed = detail::take_frame(peer.in, frame)) == detail::Parsed::whole) {
    handle(peer, frame);
  }
  if (!open || parsed == detail::Parsed::nonsense) {
    judge_.lose(peer, "has ended without a word");
  }
}

TANDEM_ONCE void Lifeline::handle(Peer& peer, Frame const& frame) {
  if (peer.role == Role::stranger) {
    std::optional<LifelineVerdict> const known = verdict();
    if (door_.greet(peer, frame) && known) {
      detail::append(peer.out, detail::frame_of(FrameKind::verdict, *known));
    }
  } else if (frame.head.kind == FrameKind::failed && peer.role == Role::child) {
    judge_.raise(detail::verdict_of(frame));
  } else if (frame.head.kind == FrameKind::verdict && peer.role == Role::parent) {
    judge_.decide(detail::verdict_of(frame));
  } else if (frame.head.kind == FrameKind::ready && peer.role == Role::child) {
    peer.is_ready = true;
    look_whether_all_are_ready();
  } else if (frame.head.kind == FrameKind::begin && peer.role == Role::parent) {
    begin();
  } else if (frame.head.kind == FrameKind::beat) {
    peer.board = frame.what;
  } else if (frame.head.kind == FrameKind::asks && peer.role == Role::parent) {
    judge_.ask(peer);
  } else if (detail::LifelineJudge::is_answer(frame.head.kind) && peer.role == Role::child) {
    judge_.take_answer(frame);
  } else if (frame.head.kind == FrameKind::goodbye && peer.is_connected() && !peer.is_done) {
    peers_.left.push_back({peer.process, peer.machine, frame.what, frame.head.call});
    somebody_left_.store(true);
    peer.is_done = true;
  }
}

TANDEM_ONCE void Lifeline::look_who_left() {
  std::uint64_t const works = works_.load();
  for (auto const& left : peers_.left) {
    if (left.works < works) {
      judge_.miss(left);
    }
  }
}

TANDEM_ONCE void Lifeline::look_whether_all_are_ready() {
  auto const is_ready = [](Peer const& peer) { return peer.role == Role::child && peer.is_ready; };
  if (std::ranges::count_if(peers_.all, is_ready) < tree_.children(peers_.process)) {
    return;
  }
  if (peers_.process == 0) {
    begin();
  } else if (Peer* const parent = peers_.parent()) {
    peers_.say(*parent, FrameKind::ready);
  }
}

TANDEM_ONCE void Lifeline::begin() {
  peers_.say_to_children(FrameKind::begin);
  std::lock_guard const lock{mutex_};
  begun_ = true;
  changed_.notify_all();
}

TANDEM_ONCE bool Lifeline::take_reports() {
  std::vector<LifelineVerdict> reports;
  bool stops = false;
  {
    std::lock_guard const lock{mutex_};
    reports.swap(reports_);
    stops = stops_;
  }
  for (LifelineVerdict const& report : reports) {
    judge_.raise(report);
  }
  return stops;
}

TANDEM_ONCE void Lifeline::beat(Clock::time_point now, Clock::duration since_begin) {
  constexpr std::chrono::seconds for_hello{10};
  std::string const at = judge_.board();  // the same for all, who may have to name this process
  for (Peer& peer : peers_.all) {
    if (peer.is_connected()) {
      if (peer.out.empty()) {
        peers_.say(peer, FrameKind::beat, at);
      }
      if (now - peer.heard > options_.silence && !peer.is_done) {
        judge_.give_up(peer);
      }
    } else if (peer.role == Role::stranger && now - peer.heard > for_hello) {
      peer.role = Role::gone;
    }
  }
  int const missing = door_.missing();
  if (!judge_.has_raised() && since_begin > options_.timeout && missing >= 0) {
    judge_.raise(
        {.process = missing, .what = "has not come within " + detail::to_string(options_.timeout)});
  }
}

}  // namespace tandem

#endif
