// SPDX-License-Identifier: Apache-2.0
// Processes that fail, are killed or stopped, and what all the others learn of it.

#include <doctest/doctest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/comm/lifeline/first_to_say.hpp>
#include <tandem/comm/lifeline/guard.hpp>
#include <tandem/comm/lifeline/lifeline.hpp>

#include "rendezvous_processes.hpp"

namespace tandem {
namespace lifeline_test {

using namespace std::chrono_literals;

/// What a process does once it is connected.
enum class Part { waits, reports, throws, exits, leaves, goes_on, leaves_early, leaves_open };

/// A program's processes, each with a part, and what they say in the end.
class Processes {
 public:
  /// @param width  0: process 0 is connected with all
  Processes(std::vector<Part> const& parts, int width = 0,
            std::chrono::milliseconds silence = 20s) {
    REQUIRE(::pipe(connected_.data()) == 0);
    std::string const address = "127.0.0.1:" + std::to_string(test::free_port());
    for (int p = 0; p < static_cast<int>(parts.size()); ++p) {
      World const world = test::world_of(static_cast<int>(parts.size()), p, address);
      Part const part = parts[static_cast<std::size_t>(p)];
      children_.push_back(std::make_unique<test::Child>(
          [=, tell = connected_[1]] { return play(world, part, width, silence, tell); }));
    }
  }
  Processes(Processes const&) = delete;
  Processes& operator=(Processes const&) = delete;
  ~Processes() {
    ::close(connected_[0]);
    ::close(connected_[1]);
  }

  /// Until all have made their ends.
  void await_connected() const {
    char byte = 0;
    for (std::size_t p = 0; p < children_.size(); ++p) {
      REQUIRE(::read(connected_[0], &byte, 1) == 1);
    }
  }

  void send(int process, int signal) const {
    children_[static_cast<std::size_t>(process)]->send(signal);
  }
  /// The same whether it was still waiting for others or was told later.
  [[nodiscard]] std::string result(int process) const {
    std::string const text = children_[static_cast<std::size_t>(process)]->result();
    std::string const waiting = "error: lifeline: ";
    return text.rfind(waiting, 0) == 0 ? text.substr(waiting.size()) : text;
  }
  /// What all but @p one say, which is one thing.
  [[nodiscard]] std::string result_but(int one) const {
    std::string all;
    for (int p = 0; p < static_cast<int>(children_.size()); ++p) {
      if (p == one) {
        continue;
      }
      std::string const text = result(p);
      CAPTURE(p);
      if (all.empty()) {
        all = text;
      }
      CHECK(text == all);
    }
    return all;
  }

 private:
  static std::string play(World const& world, Part part, int width,
                          std::chrono::milliseconds silence, int tell) {
    std::promise<std::string> heard;
    LifelineOptions options{.timeout = 20s, .beat = 50ms, .silence = silence};
    if (width > 0) {
      options.few = 1;
      options.width = width;
    }
    Lifeline line{
        world,
        {.on_verdict = [&](LifelineVerdict const& verdict) { heard.set_value(verdict.reason()); },
         .board = [&] { return std::string{part == Part::leaves_early ? "in step 1" : ""}; }},
        options};
    char const byte = 0;
    [[maybe_unused]] auto const told = ::write(tell, &byte, 1);
    switch (part) {
      case Part::reports:
        line.report(7, "no \x1b[31mmemory");
        break;
      case Part::throws:
        throw std::runtime_error{"no file"};
      case Part::exits:
        ::_exit(0);
      case Part::goes_on:
        line.begin_work();
        line.begin_work();
        break;
      case Part::leaves_early:
        line.begin_work();
        return "left";
      case Part::leaves_open:  // as in exit(), whose last functions may take long
        line.begin_work();
        line.leave();
        static_cast<void>(::pause());
        break;
      case Part::leaves:
        return "left";
      case Part::waits:
        break;
    }
    auto future = heard.get_future();
    return future.wait_for(20s) == std::future_status::ready ? future.get() : "nothing";
  }

  std::array<int, 2> connected_{};
  std::vector<std::unique_ptr<test::Child>> children_;
};

std::string on_machine(std::string const& before, std::string const& after) {
  return before + detail::machine_name() + after;
}

constexpr Part waits = Part::waits;

TEST_CASE("all processes learn the same of a rank that failed, in a star and in a tree") {
  for (int const width : {0, 2}) {
    for (std::size_t const failing : {0U, 1U, 6U}) {
      CAPTURE(width);
      CAPTURE(failing);
      std::vector<Part> parts(7, waits);
      parts[failing] = Part::reports;
      Processes const processes{parts, width};
      CHECK(processes.result_but(-1) ==
            on_machine("on ", ", process " + std::to_string(failing) + ": no \\x1B[31mmemory"));
    }
  }
}

TEST_CASE("of two failures all take one") {
  Processes const processes{{waits, Part::reports, waits, Part::reports, waits}, 2};
  std::string const text = processes.result_but(-1);
  CHECK(text.find("no \\x1B[31mmemory") != std::string::npos);
}

TEST_CASE("a process that ends without a word is noticed: exited, or killed") {
  for (int const width : {0, 2}) {
    for (std::size_t const ends : {0U, 1U, 4U}) {
      CAPTURE(width);
      CAPTURE(ends);
      std::vector<Part> parts(5, waits);
      parts[ends] = Part::exits;
      Processes const processes{parts, width};
      CHECK(processes.result_but(static_cast<int>(ends)) ==
            on_machine("process " + std::to_string(ends) + " on ", " has ended without a word"));
    }
  }
  Processes const processes{std::vector<Part>(3, waits)};
  processes.await_connected();
  processes.send(2, SIGKILL);
  CHECK(processes.result_but(2) == on_machine("process 2 on ", " has ended without a word"));
}

TEST_CASE("a process that is stopped is noticed by its silence") {
  Processes const processes{std::vector<Part>(3, waits), 0, 3s};
  processes.await_connected();
  processes.send(1, SIGSTOP);
  std::string const text = processes.result(0);
  CHECK(processes.result(2) == text);
  CHECK(text == on_machine("process 1 on ", " is silent: stopped, frozen or cut off"));
  processes.send(1, SIGCONT);
  CHECK(processes.result(1) == text);
}

TEST_CASE(
    "a process that an exception ends says so; one that leaves in order is missed by nobody") {
  Processes const throws{{waits, Part::throws, waits}};
  CHECK(throws.result_but(1) ==
        on_machine("process 1 on ", " ends because of an error outside of its ranks"));
  CHECK(throws.result(1) == "error: no file");
  Processes const leaves{{Part::leaves, Part::leaves, Part::reports, Part::leaves}};
  CHECK(leaves.result(0) == "left");
  CHECK(leaves.result(1) == "left");
  CHECK(leaves.result(2) == on_machine("on ", ", process 2: no \\x1B[31mmemory"));
  CHECK(leaves.result(3) == "left");
}

TEST_CASE("a process that ends in order before the others is missed by those who go on") {
  for (int const width : {0, 2}) {
    for (std::size_t const leaves : {0U, 1U, 4U}) {
      CAPTURE(width);
      CAPTURE(leaves);
      std::vector<Part> parts(5, Part::goes_on);
      parts[leaves] = Part::leaves_early;
      Processes const processes{parts, width};
      std::string const expected = on_machine(
          "process " + std::to_string(leaves) + " on ",
          " has ended in order, by exit(), return or the end of its Trainer, before the others; it "
          "was last seen in step 1; all processes must make the same calls");
      CHECK(processes.result_but(static_cast<int>(leaves)) == expected);
      CHECK(processes.result(static_cast<int>(leaves)) == "left");
    }
  }
  std::vector<Part> parts(4, Part::goes_on);
  parts[0] = Part::leaves_open;
  Processes const open{parts};
  CHECK(open.result_but(0) ==
        on_machine("process 0 on ",
                   " has ended in order, by exit(), return or the end of its Trainer, before the "
                   "others; all processes must make the same calls"));
  open.send(0, SIGKILL);
  std::vector<Part> const together(4, Part::leaves_early);  // as many works, then the end
  Processes const processes{together};
  CHECK(processes.result_but(-1) == "left");
}

TEST_CASE("a lifeline in a child of fork() reports nothing, and its destructor does nothing") {
  test::Child whole{[] {  // of one process, which has a thread for it, too
    std::optional<Lifeline> line;
    line.emplace(test::world_of(1, 0, "127.0.0.1:" + std::to_string(test::free_port())),
                 LifelineCalls{.on_verdict = [](LifelineVerdict const& /*verdict*/) {}});
    std::string const text = test::Child{[&] {
                               ::alarm(30);
                               std::string said;
                               try {
                                 line->report(0, "the fuse has blown");
                               } catch (ContractError const& error) {
                                 said = error.what();
                               }
                               line.reset();
                               return said;
                             }}.result();
    return text + (line->verdict() ? " and more" : "");
  }};
  CHECK(whole.result() ==
        "report(): this Lifeline was made before fork(), and its threads are in the parent process "
        "only; make another one in the child, after fork()");
}

/// A rank a process: who waits for whom, and the one that has waited too long.
struct Waits {
  std::vector<int> of;  ///< by process; -1: for nobody
  std::size_t reports;
};

/// What each process says in the end.
std::vector<std::string> after_a_time_out(Waits const& chain, int width, int stopped = -1) {
  std::string const address = "127.0.0.1:" + std::to_string(test::free_port());
  std::vector<std::unique_ptr<test::Child>> children;
  for (std::size_t p = 0; p < chain.of.size(); ++p) {
    children.push_back(std::make_unique<test::Child>([&chain, width, stopped, p, address] {
      std::promise<std::string> heard;
      int const rank = static_cast<int>(p);
      int const other = chain.of[p];
      std::string const late = "rank " + std::to_string(other) + " is late";
      std::vector<detail::WaitingRank> own;
      if (other >= 0) {
        own.push_back({.rank = rank, .missing = {{other, late}}});
      }
      Lifeline line{test::world_of(static_cast<int>(chain.of.size()), rank, address),
                    {.on_verdict =
                         [&](LifelineVerdict const& verdict) {
                           heard.set_value(verdict.reason() + (verdict.timed_out ? "" : "!"));
                         },
                     .board = [rank] { return "in step " + std::to_string(rank); },
                     .waits = [&own] { return own; }},
                    {.timeout = 20s,
                     .beat = 50ms,
                     .silence = 20s,
                     .few = width > 0 ? 1 : 512,
                     .width = width > 0 ? width : 64}};
      if (rank == stopped) {
        std::this_thread::sleep_for(100ms);
        ::raise(SIGSTOP);
      }
      if (p == chain.reports) {
        std::this_thread::sleep_for(500ms);  // what others were at is known by then
        line.report_time_out(rank, late);
      }
      auto future = heard.get_future();
      return future.wait_for(20s) == std::future_status::ready ? future.get() : "nothing";
    }));
  }
  std::vector<std::string> said;
  for (std::size_t p = 0; p < chain.of.size(); ++p) {
    if (static_cast<int>(p) != stopped) {
      said.push_back(children[p]->result());
    }
  }
  if (stopped >= 0) {
    children[static_cast<std::size_t>(stopped)]->send(SIGKILL);
  }
  return said;
}

TEST_CASE("a time-out names the end of the chain, in whichever process it is") {
  for (int const width : {0, 2}) {
    for (std::size_t const reports : {1U, 4U, 6U}) {
      CAPTURE(width);
      CAPTURE(reports);
      // 1, 4 and 6 wait for 5, directly or not, which waits for nobody
      auto const said = after_a_time_out({{1, 4, -1, 5, 6, -1, 5}, reports}, width);
      std::string const last = "rank 5 is late";
      for (std::string const& text : said) {
        CHECK(text == said[0]);
        CHECK(text.rfind(last, 0) == 0);
        CHECK(text.find("; it was last seen in step 5") != std::string::npos);
        CHECK(text.find("silent") == std::string::npos);
        CHECK(text.find("rank 6 waits for it") != std::string::npos);
      }
    }
  }
}

TEST_CASE("who is silent is the end of a chain, and was last seen where it last said") {
  for (int const width : {0, 2}) {
    CAPTURE(width);
    auto const said = after_a_time_out({{4, 4, -1, -1, 3}, 1}, width, 3);
    REQUIRE(said.size() == 4);
    for (std::string const& text : said) {
      CHECK(text == said[0]);
      CHECK(text ==
            "rank 3 is late; rank 4 waits for it, rank 1 for rank 4; process 3 is silent: stopped, "
            "frozen or cut off; it was last seen in step 3");
    }
  }
}

/// What a guard aborts; never asked for what it waits for.
struct Ranks {
  void abort(int /*rank*/, std::string_view reason) { aborted.set_value(std::string{reason}); }
  std::promise<std::string> aborted;
};

TEST_CASE("a process whose ranks do not return after another's failure ends, and says why") {
  for (bool const at_work : {true, false}) {
    CAPTURE(at_work);
    std::string const address = "127.0.0.1:" + std::to_string(test::free_port());
    test::Child fails{[&] {
      LifelineGuard<Ranks> line{test::world_of(2, 0, address), 2, 20s};
      Ranks ranks;
      line.guard(ranks, [](int rank) { return rank == 1 ? "at 0F3" : "at no action"; });
      line.at_step(7);
      line.report(1, "the fuse has blown");
      auto future = ranks.aborted.get_future();
      return future.wait_for(20s) == std::future_status::ready ? future.get() : "nothing";
    }};
    std::array<int, 2> errors{};
    REQUIRE(::pipe(errors.data()) == 0);
    ::pid_t const stays = ::fork();
    REQUIRE(stays >= 0);
    if (stays == 0) {
      ::dup2(errors[1], 2);
      LifelineGuard<Ranks> line{test::world_of(2, 1, address), 2, 20s};
      Ranks ranks;
      line.guard(ranks);
      if (at_work) {
        line.enter();
      }
      ranks.aborted.get_future().wait();
      std::this_thread::sleep_for(at_work ? 20s : 4s);
      ::_exit(5);
    }
    ::close(errors[1]);
    std::string text;
    std::array<char, 512> buffer{};
    for (::ssize_t got = 1; got > 0;) {
      got = ::read(errors[0], buffer.data(), buffer.size());
      text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    ::close(errors[0]);
    int status = 0;
    REQUIRE(::waitpid(stays, &status, 0) == stays);
    CHECK(WEXITSTATUS(status) == (at_work ? 70 : 5));
    std::string const reason = on_machine("on ", ", process 0: step 7, at 0F3: the fuse has blown");
    CHECK(fails.result() == reason);
    CHECK(text == (at_work ? "tandem: rank 1 failed: " + reason +
                                 "; the ranks of this process, 2 to 3, have not returned within 3 "
                                 "s of it, so the process ends\n"
                           : ""));
  }
}

TEST_CASE("a group that is guarded while the verdict arrives is aborted once") {
  struct Counted {
    void abort(int /*rank*/, std::string_view /*reason*/) { ++aborts; }
    std::atomic<int> aborts{0};
  };
  std::string const address = "127.0.0.1:" + std::to_string(test::free_port());
  std::array<int, 2> go{};
  REQUIRE(::pipe(go.data()) == 0);
  test::Child fails{[&] {
    LifelineGuard<Counted> line{test::world_of(2, 0, address), 1, 20s};
    char byte = 0;
    [[maybe_unused]] auto const read = ::read(go[0], &byte, 1);
    line.report(0, "the fuse has blown");
    return std::string{};
  }};
  test::Child other{[&] {
    Counted before;
    Counted group;
    {
      LifelineGuard<Counted> line{test::world_of(2, 1, address), 1, 20s};
      auto const meets_verdict = [&](void* /*nothing*/) {
        [[maybe_unused]] auto const told = ::write(go[1], "", 1);
        while (line.failure().empty()) {
          std::this_thread::sleep_for(1ms);
        }
      };
      std::shared_ptr<void> in_guard{nullptr, meets_verdict};
      line.guard(before, [held = std::move(in_guard)](int /*rank*/) { return std::string{}; });
      line.guard(group);  // lets go of `held` in the middle
    }
    return std::to_string(before.aborts) + " " + std::to_string(group.aborts);
  }};
  CHECK(other.result() == "0 1");
  ::close(go[0]);
  ::close(go[1]);
}

TEST_CASE("of the processes of one machine that live one says a sentence") {
  std::array<int, 2> asked{};
  std::array<int, 2> lives{};  // until this process closes its end
  REQUIRE(::pipe(asked.data()) == 0);
  REQUIRE(::pipe(lives.data()) == 0);
  auto const asks = [&](std::string const& sentence) {
    return std::make_unique<test::Child>([&, sentence] {
      ::close(lives[1]);
      std::string const text = detail::is_first_to_say(sentence) ? "first" : "other";
      char byte = 0;
      [[maybe_unused]] auto const told = ::write(asked[1], &byte, 1);
      [[maybe_unused]] auto const ended = ::read(lives[0], &byte, 1);
      return text;
    });
  };
  std::vector<std::unique_ptr<test::Child>> children;
  for (char const* const sentence : {"1 has ended", "1 has ended", "1 has ended", "2 has ended"}) {
    children.push_back(asks(sentence));
  }
  char byte = 0;
  for (std::size_t i = 0; i < children.size(); ++i) {
    REQUIRE(::read(asked[0], &byte, 1) == 1);
  }
  ::close(lives[1]);
  int firsts = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    firsts += children[i]->result() == "first" ? 1 : 0;
  }
  CHECK(firsts == 1);
  CHECK(children[3]->result() == "first");
  children.clear();                                 // and its processes have ended
  CHECK(asks("1 has ended")->result() == "first");  // of another run
  for (int const descriptor : {asked[0], asked[1], lives[0]}) {
    ::close(descriptor);
  }
}

TEST_CASE("each process but the first has a parent, which counts it among its children") {
  for (int const processes : {1, 2, 512, 513, 65536}) {
    detail::LifelineTree const tree{processes};
    std::vector<int> children(static_cast<std::size_t>(processes), 0);
    bool below = true;
    int deepest = 0;
    for (int p = 1; p < processes; ++p) {
      below = below && tree.parent(p) >= 0 && tree.parent(p) < p;
      ++children[static_cast<std::size_t>(tree.parent(p))];
      int depth = 0;
      for (int at = p; at > 0; at = tree.parent(at)) {
        ++depth;
      }
      deepest = depth > deepest ? depth : deepest;
    }
    CHECK(below);
    CHECK(deepest <= (processes <= 512 ? 1 : 3));
    bool same = true;
    for (int p = 0; p < processes; ++p) {
      same = same && children[static_cast<std::size_t>(p)] == tree.children(p);
    }
    CHECK(same);
  }
  CHECK(detail::LifelineTree{65536}.children(0) == 64);
}

TEST_CASE("frames come in pieces, and nonsense is none") {
  std::vector<std::byte> sent;
  LifelineVerdict const verdict{
      .process = 3, .rank = 12, .machine = "node7", .what = "the disk is full"};
  append(sent, detail::frame_of(detail::FrameKind::failed, verdict));
  append(sent, detail::frame_of(detail::FrameKind::verdict,
                                {.process = 1, .what = std::string(5000, 'x')}));
  std::vector<std::byte> come;
  std::vector<detail::Frame> frames;
  for (std::byte const byte : sent) {
    come.push_back(byte);
    detail::Frame frame;
    detail::Parsed const parsed = detail::take_frame(come, frame);
    CHECK(parsed != detail::Parsed::nonsense);
    if (parsed == detail::Parsed::whole) {
      frames.push_back(frame);
    }
  }
  REQUIRE(frames.size() == 2);
  CHECK(come.empty());
  CHECK(detail::verdict_of(frames[0]) == verdict);
  CHECK(frames[1].what == std::string(1024, 'x'));
  detail::Frame frame;
  for (std::size_t const at : {0U, 18U, 21U}) {  // the magic, a length, the kind
    std::vector<std::byte> wrong = sent;
    wrong[at] = std::byte{0xFF};
    wrong[at + 1] = std::byte{0xFF};
    CHECK(detail::take_frame(wrong, frame) == detail::Parsed::nonsense);
  }
}

}  // namespace lifeline_test
}  // namespace tandem
