// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lifeline: a connection that the processes of a program keep, beside all that they compute with,
/// so that everyone learns at once what went wrong first.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/addresses.hpp>
#include <tandem/comm/lifeline/frame.hpp>
#include <tandem/comm/lifeline/inquiry.hpp>
#include <tandem/comm/lifeline/peer.hpp>
#include <tandem/comm/lifeline/tree.hpp>
#include <tandem/comm/lifeline/verdict.hpp>
#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/rendezvous.hpp>
#include <tandem/comm/threads/chain.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// How long a lifeline waits.
struct LifelineOptions {
  /// For a process to come, at the start.
  std::chrono::milliseconds timeout = std::chrono::minutes{5};
  /// Between two signs of life.
  std::chrono::milliseconds beat = std::chrono::seconds{1};
  /// Without a sign of life until a process is given up: stopped, frozen or cut off.
  std::chrono::milliseconds silence = std::chrono::seconds{30};
  /// Until what process 0 has been asked is answered: for a rank that has waited too long.
  std::chrono::milliseconds answer = std::chrono::seconds{1};
  int local_ranks = 1;  ///< of each process
  /// Children of process 0 before there is a tree, and of each process then; for tests.
  int few = detail::LifelineTree::few;
  int width = 64;
};

/// What a lifeline asks its process. Called on the lifeline's thread, also while this waits to be
/// connected; they neither throw nor wait for others.
struct LifelineCalls {
  /// Once, with what went wrong first.
  std::function<void(LifelineVerdict const&)> on_verdict;
  /// From then on, four times a second. May be empty, and so may the next two.
  std::function<void()> after_verdict{};
  /// What this process is at: "in step 5, rank 2 at 0F1 (microbatch 1)"
  std::function<std::string()> board{};
  /// Its ranks that wait for others.
  std::function<std::vector<detail::WaitingRank>()> waits{};
  /// How far its ranks have come, where they do not know whom they wait for; may be empty, too.
  std::function<std::vector<detail::ReachedCall>()> reached{};
  /// Of process 0: the ranks of a group that ReachedCall names. @pre there is `reached`
  std::function<std::vector<int>(int group)> members{};
};

/// One process's end. All processes make theirs; a thread of its own serves it.
///
/// A process that ends without a word (killed, crashed, `exit`) is noticed by the end of its
/// connection, in milliseconds; one that is stopped or cut off by its silence. What a rank's thread
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
  Lifeline(World const& world, LifelineCalls calls, LifelineOptions const& options = {})
      : options_{options},
        process_{world.process},
        tree_{world.processes, options.few, options.width},
        machine_{detail::machine_name()},
        calls_{std::move(calls)},
        exceptions_{std::uncaught_exceptions()} {
    if (::pipe2(wake_.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      throw Error{"lifeline: the system has no more descriptors"};
    }
    try {
      connect(world);
      thread_ = std::thread{[this] { serve(); }};
      await_all();
    } catch (...) {
      end();
      throw;
    }
  }

  Lifeline(Lifeline const&) = delete;
  Lifeline& operator=(Lifeline const&) = delete;

  /// Says goodbye, unless an exception passes: then the others learn that this process ends.
  ~Lifeline() {
    if (std::uncaught_exceptions() > exceptions_) {
      report_process("ends because of an error outside of its ranks");
    }
    end();
  }

  /// An exception that all processes throw is about to end this: it is none's failure.
  void leave_in_order() noexcept { exceptions_ = std::numeric_limits<int>::max(); }

  /// A rank of this process has failed. From any thread; the first failure of all counts.
  void report(int rank, std::string_view what) {
    add({.process = process_, .rank = rank, .machine = machine_, .what = shown(what)});
  }
  /// A rank of this process has waited too long, as @p what says, and still waits: until all have
  /// been asked who is to blame.
  void report_time_out(int rank, std::string_view what) {
    add({.process = process_,
         .rank = rank,
         .machine = machine_,
         .what = shown(what),
         .timed_out = true});
  }
  /// This process as a whole.
  void report_process(std::string_view what) {
    add({.process = process_, .rank = -1, .machine = machine_, .what = shown(what)});
  }

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

  static constexpr char const* silent = "is silent: stopped, frozen or cut off";

  /// What process 0 tells all at the rendezvous.
  struct Root {
    detail::Nonce key{};
    std::uint32_t port = 0;
    char address[8][64] = {};  // "" behind the last
  };

  static std::string shown(std::string_view what) {
    return detail::printable(what, detail::FrameHead::most);
  }

  void connect(World const& world) {
    std::uint16_t port = 0;
    if (tree_.children(process_) > 0) {
      listener_ = detail::listen_anywhere(port);
    }
    Root root;
    if (process_ == 0) {
      root.key = detail::make_nonce();
      root.port = port;
      std::size_t count = 0;
      for (std::string const& address : detail::own_addresses()) {
        if (count < std::size(root.address) && address.size() < sizeof root.address[0]) {
          std::memcpy(root.address[count++], address.c_str(), address.size() + 1);
        }
      }
    }
    rendezvous(world, std::as_writable_bytes(std::span{&root, 1}), options_.timeout);
    key_ = root.key;
    if (process_ != 0) {
      call_parent(world, root, port);
    }
  }

  // Process 0 first, at each of its addresses; it may refer to another.
  void call_parent(World const& world, Root const& root, std::uint16_t port) {
    std::string const end = ":" + std::to_string(root.port);
    std::vector<std::string> addresses;
    std::string const& met = world.rendezvous.address;
    if (world.rendezvous.broadcast == nullptr && met.rfind("file:", 0) != 0) {
      addresses.push_back(met.substr(0, met.rfind(':')) + end);
    }
    for (auto const& address : root.address) {
      if (address[0] != '\0' && std::memchr(address, '\0', sizeof address) != nullptr) {
        addresses.push_back(address + end);
      }
    }
    Frame const hello{.head = {.process = process_, .port = port, .kind = FrameKind::hello},
                      .machine = machine_};
    detail::Patience patience{options_.timeout, 0, std::chrono::milliseconds{100}};
    Peer parent;
    Frame answer;
    LifelineVerdict ended{.process = 0, .rank = -1, .what = "has ended without a word"};
    std::string why = "it has no address";
    std::size_t refusals = 0;  // in a row: each address listens until its process ends
    int slice = 2000;          // a stranger may listen at one of them
    for (std::size_t i = 0;; ++i) {
      detail::Patience const limit{std::chrono::milliseconds{std::min(slice, patience.left_ms())}};
      bool refused = false;
      if (!addresses.empty() && detail::call_process(addresses[i % addresses.size()], key_, hello,
                                                     limit, parent, answer, why, refused)) {
        if (answer.head.kind == FrameKind::welcome) {
          break;
        }
        addresses.assign(1, answer.what);  // of the parent
        ended.process = answer.head.process;
        ended.machine = answer.machine;
        refusals = 0;
        continue;
      }
      refusals = refused ? refusals + 1 : 0;
      if (refused && refusals > 2 * addresses.size()) {
        throw AbortedError{"lifeline: " + ended.reason()};
      }
      slice = std::min(2 * slice, 30000);
      if (addresses.empty() || !patience.pause()) {
        throw TimeoutError{"lifeline: process 0 did not answer process " +
                           std::to_string(process_) + " within " +
                           detail::to_string(options_.timeout) + " (" + why + ")"};
      }
    }
    parent.role = Role::parent;
    parent.process = answer.head.process;
    parent.machine = answer.machine;
    peers_.push_back(std::move(parent));
  }

  void add(LifelineVerdict verdict) {
    {
      std::lock_guard const lock{mutex_};
      reports_.push_back(std::move(verdict));
    }
    wake();
  }

  void wake() noexcept {
    char const byte = 0;
    [[maybe_unused]] auto const wrote = ::write(wake_[1], &byte, 1);  // full: it wakes anyway
  }

  void await_all() {
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

  void end() noexcept {
    if (thread_.joinable()) {
      {
        std::lock_guard const lock{mutex_};
        stops_ = true;
      }
      wake();
      thread_.join();
    }
    for (int const descriptor : wake_) {
      static_cast<void>(::close(descriptor));
    }
  }

  // The lifeline's thread.

  void serve() {
    Clock::time_point const first_look = Clock::now();
    Clock::time_point last_look = first_look;
    Clock::time_point next_beat = first_look + options_.beat;
    std::vector<::pollfd> entries;
    look_whether_all_are_ready();  // of no children
    for (std::optional<Clock::time_point> end;;) {
      wait(entries, std::min({next_beat, end.value_or(next_beat), next_look()}));
      Clock::time_point const now = Clock::now();
      if (now - last_look > 4 * options_.beat) {  // this process itself stood still
        for (Peer& peer : peers_) {
          peer.heard = now;
        }
      }
      last_look = now;
      for (std::size_t i = 0; i < entries.size() - 2; ++i) {
        if (entries[i + 2].revents != 0) {
          hear(i);
        }
      }
      if (entries[1].revents != 0) {
        welcome();
      }
      bool const stops = take_reports();
      if (now >= next_beat) {
        next_beat = now + options_.beat;
        beat(now, now - first_look);
      }
      look(now);
      if (stops && !end) {
        end = now + std::chrono::seconds{1};
        for (Peer& peer : peers_) {
          if (peer.is_connected()) {
            say(peer, FrameKind::goodbye);
          }
        }
      }
      bool sent = true;
      for (Peer& peer : peers_) {
        peer.write();
        sent = sent && peer.out.empty();
      }
      std::erase_if(peers_, [](Peer const& peer) {
        return peer.role == Role::gone || (peer.ends_sent && peer.out.empty());
      });
      if (end && (sent || now >= *end)) {
        return;
      }
    }
  }

  void wait(std::vector<::pollfd>& entries, Clock::time_point until) {
    entries.assign({{wake_[0], POLLIN, 0}, {listener_.get(), POLLIN, 0}});
    for (Peer const& peer : peers_) {
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

  // @p i is kept: handling a frame may add nothing to peers_.
  void hear(std::size_t i) {
    bool const open = peers_[i].read();
    Frame frame;
    detail::Parsed parsed = detail::Parsed::partly;
    while (peers_[i].role != Role::gone &&
           (parsed = detail::take_frame(peers_[i].in, frame)) == detail::Parsed::whole) {
      handle(peers_[i], frame);
    }
    if (!open || parsed == detail::Parsed::nonsense) {
      lose(peers_[i], "has ended without a word");
    }
  }

  void handle(Peer& peer, Frame const& frame) {
    if (peer.role == Role::stranger) {
      greet(peer, frame);
    } else if (frame.head.kind == FrameKind::failed && peer.role == Role::child) {
      raise(detail::verdict_of(frame));
    } else if (frame.head.kind == FrameKind::verdict && peer.role == Role::parent) {
      decide(detail::verdict_of(frame));
    } else if (frame.head.kind == FrameKind::ready && peer.role == Role::child) {
      peer.is_ready = true;
      look_whether_all_are_ready();
    } else if (frame.head.kind == FrameKind::begin && peer.role == Role::parent) {
      begin();
    } else if (frame.head.kind == FrameKind::beat) {
      peer.board = frame.what;
    } else if (frame.head.kind == FrameKind::asks && peer.role == Role::parent) {
      ask();
      answer(peer.out);
    } else if (is_answer(frame.head.kind) && peer.role == Role::child) {
      hand_up(frame);
    } else if (frame.head.kind == FrameKind::goodbye) {
      peer.is_done = true;
    }
  }

  static bool is_answer(FrameKind kind) {
    return kind == FrameKind::waits || kind == FrameKind::reached || kind == FrameKind::board ||
           kind == FrameKind::answered;
  }

  void ask() {
    for (Peer& peer : peers_) {
      if (peer.role == Role::child) {
        say(peer, FrameKind::asks);
      }
    }
  }

  // What its children were at when they were heard of, before what they say now; then its own.
  void answer(std::vector<std::byte>& to) {
    for (Peer const& peer : peers_) {
      if (peer.role == Role::child) {
        detail::append(to, {.head = {.process = peer.process, .kind = FrameKind::board},
                            .machine = peer.machine,
                            .what = peer.board});
      }
    }
    detail::append_waits(to, process_,
                         calls_.waits ? calls_.waits() : std::vector<detail::WaitingRank>{});
    detail::append_reached(to, process_,
                           calls_.reached ? calls_.reached() : std::vector<detail::ReachedCall>{});
    detail::append(to, {.head = {.process = process_, .kind = FrameKind::answered},
                        .machine = machine_,
                        .what = board()});
  }

  void hand_up(Frame const& frame) {
    if (inquiry_) {
      inquiry_->take(frame);
      return;
    }
    for (Peer& peer : peers_) {
      if (peer.role == Role::parent) {
        detail::append(peer.out, frame);
      }
    }
  }

  [[nodiscard]] std::string board() const { return calls_.board ? calls_.board() : std::string{}; }

  [[nodiscard]] Clock::time_point next_look() const {
    bool const looks = inquiry_ || raised_;
    return looks ? Clock::now() + std::chrono::milliseconds{250} : Clock::time_point::max();
  }

  // Process 0 has asked; or it does not decide what it was told; or all is decided.
  void look(Clock::time_point now) {
    if (inquiry_ && inquiry_->over(now)) {
      LifelineVerdict const found = inquiry_->conclude();
      inquiry_.reset();
      decide(found);
    }
    bool const decided = verdict().has_value();
    for (Peer& peer : peers_) {
      if (peer.role == Role::parent && raised_ && !decided && now - raised_at_ > patience() &&
          now - peer.heard > patience()) {
        give_up(peer, silent);
        return;
      }
    }
    if (decided && calls_.after_verdict) {
      calls_.after_verdict();
    }
  }
  // With process 0, which answers by then if it lives.
  [[nodiscard]] std::chrono::milliseconds patience() const { return 2 * options_.answer; }

  void look_whether_all_are_ready() {
    auto const is_ready = [](Peer const& peer) {
      return peer.role == Role::child && peer.is_ready;
    };
    if (std::ranges::count_if(peers_, is_ready) < tree_.children(process_)) {
      return;
    }
    if (process_ == 0) {
      begin();
      return;
    }
    for (Peer& peer : peers_) {
      if (peer.role == Role::parent) {
        say(peer, FrameKind::ready);
      }
    }
  }

  void begin() {
    for (Peer& peer : peers_) {
      if (peer.role == Role::child) {
        say(peer, FrameKind::begin);
      }
    }
    std::lock_guard const lock{mutex_};
    begun_ = true;
    changed_.notify_all();
  }

  // Who signs is a child, or, at process 0, may be another's.
  void greet(Peer& peer, Frame const& frame) {
    int const process = frame.head.process;
    int const parent = process > 0 && process < tree_.processes ? tree_.parent(process) : -1;
    bool const may_come = parent == process_ || (process_ == 0 && parent > 0);
    if (frame.head.kind != FrameKind::hello || !may_come ||
        frame.what != detail::signature(key_, peer.nonce, frame.head)) {
      peer.role = Role::gone;
      return;
    }
    peer.process = process;
    peer.machine = frame.machine;
    if (process_ == 0 && tree_.children(process) > 0) {
      places_[process] = {peer_address(peer) + ":" + std::to_string(frame.head.port),
                          frame.machine};
      refer_children_of(process);
    }
    if (parent == process_) {
      peer.role = Role::child;
      came_.push_back(process);
      say(peer, FrameKind::welcome);
      if (std::optional<LifelineVerdict> const known = verdict()) {
        detail::append(peer.out, detail::frame_of(FrameKind::verdict, *known));
      }
    } else {
      peer.role = Role::grandchild;
      if (places_.contains(parent)) {
        refer(peer);
      }
    }
  }

  static std::string peer_address(Peer const& peer) {
    ::sockaddr_storage name{};
    ::socklen_t size = sizeof name;
    return ::getpeername(peer.socket.get(), reinterpret_cast<::sockaddr*>(&name), &size) == 0
               ? detail::numeric_address(reinterpret_cast<::sockaddr const&>(name))
               : "";
  }

  void refer_children_of(int process) {
    for (Peer& peer : peers_) {
      if (peer.role == Role::grandchild && tree_.parent(peer.process) == process) {
        refer(peer);
      }
    }
  }

  void refer(Peer& peer) {
    auto const& [address, machine] = places_[tree_.parent(peer.process)];
    detail::append(peer.out,
                   {.head = {.process = tree_.parent(peer.process), .kind = FrameKind::refer},
                    .machine = machine,
                    .what = address});
    peer.ends_sent = true;
  }

  void welcome() {
    constexpr std::size_t most_strangers = 256;
    for (int taken = 0; taken < 64; ++taken) {
      detail::Descriptor next{
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (next.get() < 0) {
        return;
      }
      std::size_t strangers = 0;
      for (Peer& peer : peers_) {
        if (peer.role == Role::stranger && ++strangers >= most_strangers) {
          peer.role = Role::gone;
        }
      }
      detail::Challenge const challenge{.nonce = detail::make_nonce()};
      Peer peer{.socket = std::move(next), .nonce = challenge.nonce};
      auto const word = detail::bytes_of(challenge);
      peer.out.assign(word.begin(), word.end());
      peers_.push_back(std::move(peer));
    }
  }

  // Whether this end is to be closed.
  bool take_reports() {
    std::vector<LifelineVerdict> reports;
    bool stops = false;
    {
      std::lock_guard const lock{mutex_};
      reports.swap(reports_);
      stops = stops_;
    }
    for (LifelineVerdict const& report : reports) {
      raise(report);
    }
    return stops;
  }

  void beat(Clock::time_point now, Clock::duration since_begin) {
    constexpr std::chrono::seconds for_hello{10};
    std::string const at = board();  // the same for all, who may have to name this process
    for (Peer& peer : peers_) {
      if (peer.is_connected()) {
        if (peer.out.empty()) {
          say(peer, FrameKind::beat, at);
        }
        if (now - peer.heard > options_.silence && !peer.is_done) {
          give_up(peer, silent);
        }
      } else if (peer.role == Role::stranger && now - peer.heard > for_hello) {
        peer.role = Role::gone;
      }
    }
    int const children = tree_.children(process_);
    if (!raised_ && since_begin > options_.timeout && static_cast<int>(came_.size()) < children) {
      int missing = process_ * tree_.width + 1;
      while (std::ranges::find(came_, missing) != came_.end()) {
        ++missing;
      }
      raise({.process = missing,
             .what = "has not come within " + detail::to_string(options_.timeout)});
    }
  }

  void say(Peer& peer, FrameKind kind, std::string const& what = {}) {
    detail::append(
        peer.out, {.head = {.process = process_, .kind = kind}, .machine = machine_, .what = what});
  }

  // The other end is closed, or says what nobody understands.
  void lose(Peer& peer, std::string const& what) {
    bool const was_parent = peer.role == Role::parent;
    bool const counts = peer.is_connected() && !peer.is_done;
    LifelineVerdict const verdict = verdict_on(peer, what);
    peer.role = Role::gone;
    if (counts) {
      raise(verdict);
    }
    if (was_parent && raised_) {  // nobody else will say so any more
      decide(*raised_);
    }
  }

  // It may go on some time, and then reads what was decided.
  void give_up(Peer& peer, std::string const& what) {
    peer.is_done = true;
    LifelineVerdict const verdict = verdict_on(peer, what);
    if (peer.role == Role::parent) {  // which may hear, and only not be heard
      detail::append(peer.out, detail::frame_of(FrameKind::failed, verdict));
      decide(verdict);
    } else {
      raise(verdict);
    }
  }

  static LifelineVerdict verdict_on(Peer const& peer, std::string const& what) {
    return {.process = peer.process,
            .rank = -1,
            .machine = peer.machine,
            .what = what + (peer.board.empty() ? "" : "; it was last seen " + peer.board)};
  }

  // Process 0 decides which was the first; who has no way to it, by itself.
  void raise(LifelineVerdict const& verdict) {
    if (!raised_) {
      raised_ = verdict;
      raised_at_ = Clock::now();
    }
    for (Peer& peer : peers_) {
      if (peer.role == Role::parent) {
        detail::append(peer.out, detail::frame_of(FrameKind::failed, verdict));
        return;
      }
    }
    if (!verdict.timed_out) {
      decide(verdict);
    } else if (!inquiry_ && !this->verdict()) {
      inquiry_.emplace(verdict, tree_.processes, options_.local_ranks,
                       Clock::now() + options_.answer, calls_.members);
      ask();
      std::vector<std::byte> own;
      answer(own);
      Frame frame;
      while (detail::take_frame(own, frame) == detail::Parsed::whole) {
        inquiry_->take(frame);
      }
    }
  }

  void decide(LifelineVerdict const& verdict) {
    {
      std::lock_guard const lock{mutex_};
      if (verdict_) {
        return;
      }
      verdict_ = verdict;
      changed_.notify_all();
    }
    for (Peer& peer : peers_) {
      if (peer.role == Role::child) {
        detail::append(peer.out, detail::frame_of(FrameKind::verdict, verdict));
      }
    }
    inquiry_.reset();
    raised_ = raised_.value_or(verdict);
    calls_.on_verdict(verdict);
  }

  LifelineOptions options_;
  int process_;
  detail::LifelineTree tree_;
  std::string machine_;
  LifelineCalls calls_;
  int exceptions_;
  detail::Nonce key_{};
  detail::Descriptor listener_;
  std::array<int, 2> wake_{-1, -1};

  mutable std::mutex mutex_;
  std::condition_variable changed_;         // verdict_, begun_
  std::optional<LifelineVerdict> verdict_;  // by mutex_, and so the next three
  bool begun_ = false;
  std::vector<LifelineVerdict> reports_;
  bool stops_ = false;

  // The lifeline's thread's own.
  std::vector<Peer> peers_;
  std::vector<int> came_;                                      // children
  std::map<int, std::pair<std::string, std::string>> places_;  // process → address, machine
  std::optional<LifelineVerdict> raised_;                      // the first that this end knew
  Clock::time_point raised_at_{};
  std::optional<detail::LifelineInquiry> inquiry_;  // process 0's
  std::thread thread_;
};

}  // namespace tandem
