// SPDX-License-Identifier: Apache-2.0
// rendezvous() over TCP among strangers: they learn nothing, take nobody's place, end nothing and
// hold nobody up.

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous_processes.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace rendezvous_attack_test {

using namespace test;

/// A place to meet whose address and number of the job everybody knows, and the token nobody else.
struct Meeting {
  [[nodiscard]] World world(int processes, int process) const {
    World world = world_of(processes, process, address);
    world.rendezvous.token = "job 77";
    world.rendezvous.token_file = (folder.path / "token").string();
    return world;
  }
  [[nodiscard]] std::string meet(int processes, int process, std::string const& text,
                                 std::chrono::milliseconds timeout = 20s) const {
    return test::meet(world(processes, process), text, timeout);
  }

  Folder folder;
  std::string address = "127.0.0.1:" + std::to_string(free_port());
};

/// What a stranger can say at best: all is right but the token, and so the signature.
detail::Hello forged(World const& world, detail::Nonce const& challenge) {
  detail::Hello hello = detail::make_hello(world, 6);
  hello.signature = detail::RendezvousKey{"", world.rendezvous.token}.sign(hello, challenge);
  return hello;
}

detail::Nonce challenge_at(detail::Descriptor const& socket) {
  detail::Challenge challenge;
  std::array<std::byte, sizeof challenge> word{};
  REQUIRE(::recv(socket.get(), word.data(), word.size(), MSG_WAITALL) == sizeof challenge);
  REQUIRE(detail::parse_message(word, challenge));
  return challenge.nonce;
}

void send_text(detail::Descriptor const& socket, std::string_view text) {
  [[maybe_unused]] auto const sent = ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
}

/// What process 0 answers to a hello that @p make makes of its challenge.
template <class Make>
std::string answer_to(std::string const& address, Make const& make) {
  detail::Descriptor const socket = say(address, "");
  send_text(socket, text_of(make(challenge_at(socket))));
  return hear(socket);
}

detail::Admission verdict_of(std::string const& text) {
  detail::Answer answer;
  REQUIRE(text.size() == sizeof answer);  // and so without data
  REQUIRE(detail::parse_message(detail::bytes_of(std::string_view{text}), answer));
  return answer.verdict;
}

/// Runs @p attack(stop) beside the test until the end of its scope.
template <class Attack>
struct Beside {
  explicit Beside(Attack const& attack) : thread{[this, attack] { attack(stop); }} {}
  Beside(Beside const&) = delete;
  Beside& operator=(Beside const&) = delete;
  ~Beside() {
    stop = true;
    thread.join();
  }
  std::atomic<bool> stop{false};
  std::thread thread;
};

TEST_CASE("who knows all but the token learns nothing and takes no place") {
  Watchdog const watchdog{"forged"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  World const world = meeting.world(2, 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(verdict_of(answer_to(meeting.address, [&world](auto const& challenge) {
            return forged(world, challenge);
          })) == detail::Admission::unproven);
  }
  Child one{[&] { return meeting.meet(2, 1, "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");
}

TEST_CASE("a stranger's other number of processes does not end process 0") {
  Watchdog const watchdog{"other number"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  for (int const processes : {-1, 0, 3, 1 << 30}) {
    World const world = meeting.world(processes, 1);
    CHECK(verdict_of(answer_to(meeting.address, [&world](auto const& challenge) {
            return forged(world, challenge);
          })) == detail::Admission::unproven);
  }
  Child one{[&] { return meeting.meet(2, 1, "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");
}

TEST_CASE("a hello that was overheard is of no use at another connection") {
  Watchdog const watchdog{"replay"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  detail::Descriptor const first = say(meeting.address, "");
  detail::Nonce const challenge = challenge_at(first);
  World const world = meeting.world(2, 1);
  detail::Patience patience{10s};
  detail::Hello hello = detail::make_hello(world, 6);
  hello.signature = detail::key_of(world, patience).sign(hello, challenge);
  CHECK(verdict_of(answer_to(meeting.address, [&hello](auto const&) { return hello; })) ==
        detail::Admission::unproven);
  send_text(first, text_of(hello));  // at its own connection it is the process's
  std::string answer(sizeof(detail::Answer) + 6, '\0');
  REQUIRE(::recv(first.get(), answer.data(), answer.size(), MSG_WAITALL) ==
          static_cast<::ssize_t>(answer.size()));
  CHECK(answer.find("secret") == std::string::npos);  // hidden from who passes it on
  send_text(first, "t");
  CHECK(zero.result() == "secret");
}

TEST_CASE("a process that dies before it has thanked can be started again") {
  Watchdog const watchdog{"again"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  {
    World const world = meeting.world(2, 1);
    detail::Descriptor const dies = say(meeting.address, "");
    detail::Patience patience{10s};
    detail::Hello hello = detail::make_hello(world, 6);
    hello.signature = detail::key_of(world, patience).sign(hello, challenge_at(dies));
    send_text(dies, text_of(hello));
    char byte = 0;
    REQUIRE(::recv(dies.get(), &byte, 1, 0) == 1);
    std::string const answer = answer_to(meeting.address, [&](auto const& challenge) {
      hello.signature = detail::key_of(world, patience).sign(hello, challenge);
      return hello;
    });
    CHECK(answer.empty());  // its thanks may be on the way, and this its next rendezvous
  }
  Child one{[&] { return meeting.meet(2, 1, "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");
}

TEST_CASE("ten processes meet beside peers that say a byte now and then") {
  Watchdog const watchdog{"slow peers"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(11, 0, "secret"); }};
  std::vector<detail::Descriptor> sockets;  // before the others, with whom process 0 has done
  for (int i = 0; i < 5; ++i) {
    sockets.push_back(say(meeting.address, "1"));
  }
  Beside const slow{[&sockets](std::atomic<bool> const& stop) {
    while (!stop) {
      for (auto const& socket : sockets) {
        send_text(socket, "2");
      }
      std::this_thread::sleep_for(20ms);
    }
  }};
  std::vector<std::unique_ptr<Child>> good;
  for (int process = 1; process < 11; ++process) {
    good.push_back(
        std::make_unique<Child>([&, process] { return meeting.meet(11, process, "123456"); }));
  }
  for (auto const& child : good) {
    CHECK(child->result() == "secret");
  }
  CHECK(zero.result() == "secret");
}

TEST_CASE("a false process 0 that says a byte now and then does not stretch the time") {
  Watchdog const watchdog{"slow answer"};
  Meeting const meeting;
  for (bool const challenges : {false, true}) {
    detail::Descriptor const listener =
        detail::listen_at(meeting.world(2, 0), detail::Patience{10s});
    Child one{[&] { return meeting.meet(2, 1, std::string(60000, '?'), 300ms); }};
    Beside const slow{[&listener, challenges](std::atomic<bool> const& stop) {
      std::vector<detail::Descriptor> sockets;
      while (!stop) {
        detail::Descriptor next{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
        if (next.get() >= 0) {
          send_text(next, challenges ? text_of(detail::Challenge{}) : std::string_view{});
          sockets.push_back(std::move(next));
        }
        for (auto const& socket : sockets) {
          send_text(socket, "s");
        }
        std::this_thread::sleep_for(20ms);
      }
    }};
    CHECK(contains(one.result(), "time-out: "));  // or the watchdog barks
  }
}

TEST_CASE("time is up for process 0, too, while a flood of garbage comes") {
  Watchdog const watchdog{"flood"};
  Meeting const meeting;
  Beside const flood{[&meeting](std::atomic<bool> const& stop) {
    std::mt19937 random{7};  // NOLINT: the same garbage each time
    std::string garbage(2000, '\0');
    std::vector<detail::Descriptor> open;
    while (!stop) {
      std::ranges::generate(garbage, [&random] { return static_cast<char>(random()); });
      std::string why;
      detail::Addresses const at = detail::resolve(meeting.address, why);
      detail::Descriptor socket = detail::connect_to(*at, detail::Patience{100ms}, why);
      if (socket.get() >= 0) {
        send_text(socket, std::string_view{garbage}.substr(random() % 2000));
        open.push_back(std::move(socket));
      }
      if (open.size() == 100) {
        open.clear();
      }
    }
  }};
  Child late{[&] { return meeting.meet(2, 0, "secret", 300ms); }};
  CHECK(contains(late.result(), "process 1 of 2 did not come within 300 ms"));
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  Child one{[&] { return meeting.meet(2, 1, "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");
}

TEST_CASE("a process that comes after twenty strangers is as welcome") {
  Watchdog const watchdog{"twenty"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  std::vector<detail::Descriptor> stay;
  World const world = meeting.world(2, 1);
  for (int i = 0; i < 4; ++i) {
    stay.push_back(say(meeting.address, ""));
    stay.push_back(say(meeting.address, "GET / HTTP/1.0\r\n\r\n"));
    say(meeting.address, "gone");
    CHECK(hear(say(meeting.address, std::string(sizeof(detail::Hello), 'x'))).size() >=
          sizeof(detail::Challenge));
    CHECK(verdict_of(answer_to(meeting.address, [&world](auto const& challenge) {
            return forged(world, challenge);
          })) == detail::Admission::unproven);
  }
  Child one{[&] { return meeting.meet(2, 1, "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");
}

TEST_CASE("processes with different tokens do not meet, and both sides say what to do") {
  Watchdog const watchdog{"different tokens"};
  Meeting const meeting;
  Child zero{[&] { return meeting.meet(2, 0, "secret"); }};
  World other = meeting.world(2, 1);
  other.rendezvous.token_file += "-of-another-machine";
  Child stranger{[&] { return meet(other, "123456", 300ms); }};
  CHECK(contains(stranger.result(), "time-out: "));
  Child one{[&] { return meeting.meet(2, 1, "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");

  std::string data = "secret";
  detail::RendezvousKey const key{"a token of one machine", ""};
  World const world = meeting.world(3, 0);
  detail::RollCall calls{world, key, detail::bytes_of(std::string_view{data})};
  auto const refusal = calls.reply_to_stranger().bytes;
  std::string why;
  CHECK_FALSE(detail::take_answer(world, detail::RendezvousKey{"another", ""}, {}, refusal,
                                  std::as_writable_bytes(std::span{data}), why));
  CHECK(contains(why, "does not share this process's token: set TANDEM_TOKEN"));
  try {
    calls.time_out(10s);
  } catch (TimeoutError const& error) {
    CHECK(contains(error.what(),
                   "processes 1 and 2 of 3 did not come within 10 s; 1 who came did "
                   "not prove that they belong to this program"));
  }
}

TEST_CASE("what a false process 0 says is neither taken nor printed") {
  Watchdog const watchdog{"false process 0"};
  Meeting const meeting;
  detail::Answer welcome{.bytes = 6, .processes = 2};
  detail::Answer refusal{.processes = 3, .verdict = detail::Admission::other_processes};
  detail::Answer odd{.bytes = ~std::uint64_t{0}, .verdict = static_cast<detail::Admission>(99)};
  std::string const escape = "\x1b[2J\x1b]0;owned\a\r\n";
  std::string const challenge{text_of(detail::Challenge{})};
  for (std::string const& words :
       {challenge + std::string{text_of(welcome)} + "\x1b[31m!",
        challenge + std::string{text_of(refusal)}, challenge + std::string{text_of(odd)} + escape,
        challenge + escape, escape + std::string(500, '\x1b')}) {
    detail::Descriptor const listener =
        detail::listen_at(meeting.world(2, 0), detail::Patience{10s});
    Child one{[&] { return meeting.meet(2, 1, "123456", 100ms); }};
    Beside const liar{[&listener, &words](std::atomic<bool> const& stop) {
      while (!stop) {
        detail::Descriptor const next{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)};
        if (next.get() >= 0) {
          send_text(next, words);
        }
        std::this_thread::sleep_for(1ms);
      }
    }};
    std::string const message = one.result();
    CHECK(contains(message, "time-out: "));
    CHECK(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
  }
}

}  // namespace rendezvous_attack_test
}  // namespace tandem
