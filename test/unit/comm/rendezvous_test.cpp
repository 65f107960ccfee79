// SPDX-License-Identifier: Apache-2.0
// rendezvous(): real processes that come late, not at all, with other numbers, or are strangers.

#include <tandem/comm/rendezvous/rendezvous.hpp>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous_processes.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace rendezvous_test {

using namespace test;

/// f for a TCP address and for a file.
template <class F>
void for_both(F const& f) {
  {
    CAPTURE("tcp");
    f("127.0.0.1:" + std::to_string(free_port()), nullptr);
  }
  CAPTURE("file");
  Folder const folder;
  f(folder.file(), &folder);
}

TEST_CASE("a single process meets nobody and needs no address") {
  CHECK(meet({}, "alone") == "alone");
}

TEST_CASE("four processes, three times in a row, the later ones with other bytes") {
  test::Watchdog const watchdog{"four processes"};
  for_both([](std::string const& address, Folder const* folder) {
    auto const work = [&address](int process) {
      std::string all;
      for (char const* const text : {"first", "another", ""}) {
        all += meet(world_of(4, process, address), text) + ";";
      }
      return all;
    };
    {
      Child one{[&] { return work(1); }};
      Child two{[&] { return work(2); }};
      Child three{[&] { return work(3); }};
      CHECK(work(0) == "first;another;;");
      CHECK(one.result() == "first;another;;");
      CHECK(two.result() == "first;another;;");
      CHECK(three.result() == "first;another;;");
    }
    if (folder != nullptr) {
      CHECK(folder->files() == 0);
    }
  });
}

TEST_CASE("who is early for the next rendezvous is not told what this one is about") {
  test::Watchdog const watchdog{"early"};
  for_both([](std::string const& address, Folder const*) {
    auto const work = [&address](int process) {
      std::this_thread::sleep_for(process == 2 ? 300ms : 0ms);
      std::string const first = meet(world_of(3, process, address), "first ");
      return first + meet(world_of(3, process, address), "second");
    };
    Child one{[&] { return work(1); }};
    Child two{[&] { return work(2); }};
    CHECK(work(0) == "first second");
    CHECK(one.result() == "first second");
    CHECK(two.result() == "first second");
  });
}

TEST_CASE("64 KiB, and not a byte more") {
  test::Watchdog const watchdog{"64 KiB"};
  for_both([](std::string const& address, Folder const*) {
    std::string text(65536, 'x');
    text[65535] = 'y';
    Child one{[&] { return meet(world_of(2, 1, address), text) == text ? "same" : "different"; }};
    CHECK(meet(world_of(2, 0, address), text) == text);
    CHECK(one.result() == "same");
    CHECK_THROWS_AS(meet(world_of(2, 0, address), text + "z"), ContractError);
  });
}

TEST_CASE("whoever is late is awaited") {
  test::Watchdog const watchdog{"late"};
  for_both([](std::string const& address, Folder const*) {
    for (int const late : {0, 1}) {
      Child one{[&] {
        std::this_thread::sleep_for(late == 1 ? 300ms : 0ms);
        return meet(world_of(2, 1, address), "late");
      }};
      std::this_thread::sleep_for(late == 0 ? 300ms : 0ms);
      CHECK(meet(world_of(2, 0, address), "late") == "late");
      CHECK(one.result() == "late");
    }
  });
}

TEST_CASE("a missing process is a sentence when time is up") {
  test::Watchdog const watchdog{"missing"};
  for_both([](std::string const& address, Folder const*) {
    Child two{[&] { return meet(world_of(4, 2, address), "x", 2s); }};
    Child zero{[&] { return meet(world_of(4, 0, address), "x", 500ms); }};
    CHECK(contains(zero.result(), "time-out: rendezvous at '" + address +
                                      "': processes 1 and 3 of 4 did not come within 500 ms"));
    two.result();
    Child alone{[&] { return meet(world_of(2, 1, address), "x", 300ms); }};
    CHECK(contains(alone.result(), "process 0 did not answer process 1 within 300 ms"));
  });
}

TEST_CASE("processes that do not agree hear so, and process 0 waits for one that does") {
  test::Watchdog const watchdog{"disagree"};
  for_both([](std::string const& address, Folder const* folder) {
    std::string const text =
        "process 0 was told that there are 2 processes, but process 1 that there are 3";
    {
      Child zero{[&] { return meet(world_of(2, 0, address), "12345"); }};
      Child three{[&] { return meet(world_of(3, 1, address), "12345"); }};
      CHECK(contains(three.result(), "contract: rendezvous at '" + address + "': " + text));
      Child four{[&] { return meet(world_of(2, 1, address), "1234"); }};
      CHECK(contains(four.result(), "process 1 asks process 0 for 4 bytes instead of 5"));
      Child one{[&] { return meet(world_of(2, 1, address), "12345"); }};
      CHECK(one.result() == "12345");
      CHECK(zero.result() == "12345");
    }
    Child zero{[&] { return meet(world_of(2, 0, address), "12345", 500ms); }};
    Child three{[&] { return meet(world_of(3, 1, address), "12345", 500ms); }};
    CHECK(contains(zero.result(), "time-out: "));
    three.result();
    if (folder != nullptr) {
      CHECK(folder->files() == 0);
    }
  });
}

TEST_CASE("a process of another version hears so, and so does process 0 when time is up") {
  World const zero = world_of(2, 0, "there:1");
  World const one = world_of(2, 1, "there:1");
  detail::RendezvousKey const key{"", "test"};
  std::array<std::byte, 3> data{};
  detail::RollCall calls{zero, key, data};
  detail::Hello hello = detail::make_hello(one, data.size());
  hello.version = 123;
  detail::RollCall::Reply const reply = calls.reply(hello);
  CHECK(reply.process == 0);
  std::string why;
  std::string const text = "process 1 runs tandem 0.1.23, but process 0 " +
                           detail::version_text(TANDEM_VERSION) +
                           ": start the same program everywhere";
  CHECK_THROWS_WITH_AS(
      static_cast<void>(detail::take_answer(one, key, hello, reply.bytes, data, why)),
      doctest::Contains(text.c_str()), ContractError);
  CHECK_THROWS_WITH_AS(calls.time_out(1s), doctest::Contains(text.c_str()), TimeoutError);
  hello.version = TANDEM_VERSION;
  CHECK(calls.reply(hello).process == 1);
}

TEST_CASE("process 0 says at once whom it refuses, and no more than a line a second") {
  World const zero = world_of(2, 0, "there:1");
  detail::RendezvousKey const key{"", "test"};
  std::array<std::byte, 3> data{};
  static std::string said;
  auto const note = [](char const* line) { said += line; };
  {
    detail::RollCall calls{zero, key, data, note};
    detail::Hello hello = detail::make_hello(world_of(3, 1, "there:1"), data.size());
    for (int i = 0; i < 1000; ++i) {
      CHECK(calls.reply(hello).process == 0);
      CHECK(calls.reply_to_stranger().process == 0);
    }
    calls.note_strangers(1000);  // none is new
  }
  detail::RefusalLog log{"here: ", note};
  detail::RefusalLog::Clock::time_point const start{};
  log.say("A", start);
  log.say("B", start + 1ms);
  log.say("C", start + 999ms);
  log.say("D", start + 1s);
  log.say("E", start + 3s);
  std::string const first =
      "rendezvous at 'there:1': process 0 was told that there are 2 processes, but process 1 that "
      "there are 3; refused, and process 0 goes on waiting\n";
  CHECK(said.starts_with(first));
  CHECK(std::count(said.begin(), said.end(), '\n') < 10);  // a slow machine may take seconds
  CHECK(
      said.ends_with("here: A; refused, and process 0 goes on waiting\n"
                     "here: D; refused as 2 before, and process 0 goes on waiting\n"
                     "here: E; refused, and process 0 goes on waiting\n"));
}

TEST_CASE("more processes meet than process 0 serves at once") {
  constexpr int processes = 1001;  // it keeps 512 who speak with it; each child here is 250
  constexpr int each = 250;
  std::string const address = "127.0.0.1:" + std::to_string(free_port());
  std::vector<std::unique_ptr<Child>> others;
  for (int first = 1; first < processes; first += each) {
    others.push_back(std::make_unique<Child>([&address, first] {
      std::atomic<int> met{0};
      std::vector<std::thread> threads;
      for (int process = first; process < first + each; ++process) {
        threads.emplace_back([&, process] {
          try {
            met += meet(world_of(processes, process, address), "all") == "all" ? 1 : 0;
          } catch (std::exception const&) {  // it is not counted
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      return std::to_string(met.load());
    }));
  }
  test::Watchdog const watchdog{"a thousand"};  // its thread begins behind the forks
  std::this_thread::sleep_for(100ms);           // they ask again, ever more seldom
  CHECK(meet(world_of(processes, 0, address), "all") == "all");
  for (auto const& other : others) {
    CHECK(other->result() == std::to_string(each));
  }
}

TEST_CASE("something else at the port is a time-out that says so") {
  test::Watchdog const watchdog{"something else"};
  int const listener = ::socket(AF_INET, SOCK_STREAM, 0);
  int const port = free_port();
  ::sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  REQUIRE(::bind(listener, reinterpret_cast<::sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(listener, 8) == 0);
  std::string const address = "127.0.0.1:" + std::to_string(port);
  std::thread server{[listener] {
    detail::Descriptor const peer{::accept(listener, nullptr, nullptr)};
    std::string const text = "HTTP/1.0 400 Bad Request\r\n\r\n";
    [[maybe_unused]] auto const sent = ::send(peer.get(), text.data(), text.size(), MSG_NOSIGNAL);
    std::this_thread::sleep_for(100ms);
  }};
  Child one{[&] { return meet(world_of(2, 1, address), "x", 500ms); }};
  CHECK(contains(one.result(), "what listens there is no process 0 of this program"));
  server.join();
  Child zero{[&] { return meet(world_of(2, 0, address), "x", 500ms); }};
  CHECK(contains(zero.result(), "process 0 cannot listen there"));
  ::close(listener);
}

TEST_CASE("a connection of a port to itself is seen, and no other") {
  detail::Descriptor const alone{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  ::sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(free_port()));
  auto const* const address = reinterpret_cast<::sockaddr const*>(&at);
  REQUIRE(::bind(alone.get(), address, sizeof at) == 0);
  CHECK_FALSE(detail::is_own_connection(alone));
  REQUIRE(::connect(alone.get(), address, sizeof at) == 0);
  CHECK(detail::is_own_connection(alone));

  std::string const place = "127.0.0.1:" + std::to_string(free_port());
  detail::Descriptor const listener =
      detail::listen_at(world_of(2, 0, place), detail::Patience{10s});
  CHECK_FALSE(detail::is_own_connection(say(place, "")));
}

TEST_CASE("files of runs that died are not taken for this one's") {
  test::Watchdog const watchdog{"stale files"};
  Folder const folder;
  std::string const address = folder.file();
  std::string const path = address.substr(5);
  World const old = world_of(2, 1, address);
  detail::RendezvousKey const key{"", old.rendezvous.token};
  detail::Hello stale = detail::make_hello(old, 3);
  stale.signature = key.sign(stale, {});
  std::string const lie = "lie";
  detail::RollCall dead{old, key, detail::bytes_of(std::string_view{lie})};
  for (int const which : {0, 1, 2}) {  // an answer alone is in nobody's way, and stays
    CAPTURE(which);
    detail::make_private_file(path + ".hello.of-the-dead", detail::bytes_of(stale));
    if (which == 1) {
      detail::make_private_file(path + ".answer." + detail::hex(stale.nonce),
                                dead.reply(stale).bytes);
    }
    if (which == 2) {
      detail::make_private_file(path + ".answer." + detail::hex(stale.nonce), {});
    }
    {
      Child zero{[&] { return meet(world_of(2, 0, address), "new"); }};
      Child one{[&] { return meet(world_of(2, 1, address), "new"); }};
      CHECK(one.result() == "new");
      CHECK(zero.result() == "new");
    }
    CHECK(folder.files() == 0);
  }
  World other = old;  // another start has its files in the same place
  other.rendezvous.token = "another start";
  Child other_zero{[&] {
    World world = other;
    world.process = world.local_process = 0;
    return meet(world, "theirs");
  }};
  Child other_one{[&] { return meet(other, "??????"); }};
  Child zero{[&] { return meet(world_of(2, 0, address), "ours"); }};
  Child one{[&] { return meet(world_of(2, 1, address), "????"); }};
  CHECK(one.result() == "ours");
  CHECK(zero.result() == "ours");
  CHECK(other_one.result() == "theirs");
  CHECK(other_zero.result() == "theirs");
  CHECK(folder.files() == 0);
}

TEST_CASE("a program's own broadcast is all that is used") {
  std::string seen;
  World world = world_of(2, 1, "");
  world.rendezvous.context = &seen;
  world.rendezvous.broadcast = [](void* context, void* data, std::size_t bytes) {
    *static_cast<std::string*>(context) = std::to_string(bytes);
    std::memset(data, 'b', bytes);
  };
  CHECK(meet(world, "four") == "bbbb");
  CHECK(seen == "4");
}

TEST_CASE("addresses that cannot be used are sentences") {
  auto const message = [](std::string const& address, int process) -> std::string {
    try {
      return meet(world_of(2, process, address), "x", 100ms);
    } catch (Error const& error) {
      return error.what();
    }
  };
  CHECK(contains(message("", 0), "set TANDEM_RENDEZVOUS to host:port"));
  CHECK(contains(message("nowhere", 0), "host:port, with a number as the port"));
  CHECK(contains(message(":80", 1), "host:port, with a number as the port"));
  CHECK(contains(message("host:http", 1), "host:port, with a number as the port"));
  CHECK(contains(message("file:", 1), "write file:PATH"));
  CHECK(contains(message("file:/no/such/folder/x", 1), "'/no/such/folder/x.hello."));
  CHECK(contains(message("file:/no/such/folder/x", 0), "'/no/such/folder/'"));
  CHECK(contains(message("192.0.2.1:1", 0), "process 0 cannot listen there"));
  CHECK(contains(message("host.invalid:1", 1), "within 100 ms (the host is not known"));
}

TEST_CASE("a world's numbers are checked, and ranks dealt") {
  CHECK(local_ranks({.processes = 2, .process = 1, .local_process = 0}, 8) == 4);
  CHECK(first_rank({.processes = 2, .process = 1, .local_process = 0}, 8) == 4);
  CHECK(first_rank({}, 8) == 0);
  auto const message = [](World const& world) -> std::string {
    try {
      static_cast<void>(local_ranks(world, 9));
    } catch (ContractError const& error) {
      return error.what();
    }
    return "(nothing)";
  };
  CHECK(
      contains(message({.processes = 2}), "a strategy of 9 ranks cannot be dealt to 2 processes"));
  CHECK(contains(message({.processes = 0}), "there must be at least one process"));
  CHECK(contains(message({.processes = 3, .process = 3}), "numbered from 0 up (process 3 of 3"));
  CHECK(contains(message({.processes = 3, .process = -1}), "numbered from 0 up"));
  CHECK(contains(message({.processes = 3, .process = 1, .local_process = 2}),
                 "a machine's processes"));
  CHECK(message({.processes = 3, .process = 2}) == "(nothing)");
}

}  // namespace rendezvous_test
}  // namespace tandem
