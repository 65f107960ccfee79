// SPDX-License-Identifier: Apache-2.0
// rendezvous(): real processes that come late, not at all, with other numbers, or are strangers.

#include <tandem/comm/rendezvous.hpp>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "watchdog.hpp"

namespace tandem {
namespace rendezvous_test {

using namespace std::chrono_literals;

/// A port that was free a moment ago.
int free_port() {
  int const socket = ::socket(AF_INET, SOCK_STREAM, 0);
  ::sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::socklen_t size = sizeof address;
  REQUIRE(::bind(socket, reinterpret_cast<::sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(socket, reinterpret_cast<::sockaddr*>(&address), &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

/// A folder of its own, removed at the end.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file() const { return "file:" + (path / "meet").string(); }
  [[nodiscard]] std::size_t files() const {
    std::size_t n = 0;
    for ([[maybe_unused]] auto const& entry : std::filesystem::directory_iterator{path}) {
      ++n;
    }
    return n;
  }
  std::filesystem::path path;
};

/// f() in a process of its own; what it returns, or the message that it throws, comes back.
class Child {
 public:
  explicit Child(std::function<std::string()> const& f) {
    REQUIRE(::pipe(pipe_.data()) == 0);
    process_ = ::fork();
    REQUIRE(process_ >= 0);
    if (process_ == 0) {
      std::string text;
      try {
        text = f();
      } catch (TimeoutError const& error) {
        text = std::string{"time-out: "} + error.what();
      } catch (ContractError const& error) {
        text = std::string{"contract: "} + error.what();
      } catch (std::exception const& error) {
        text = std::string{"error: "} + error.what();
      }
      [[maybe_unused]] auto const wrote = ::write(pipe_[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(pipe_[1]);
  }
  Child(Child const&) = delete;
  Child& operator=(Child const&) = delete;
  ~Child() {
    ::close(pipe_[0]);
    ::waitpid(process_, nullptr, 0);
  }
  std::string result() {
    std::string text;
    std::array<char, 512> buffer{};
    for (::ssize_t got = 1; got > 0;) {
      got = ::read(pipe_[0], buffer.data(), buffer.size());
      text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    return text;
  }

 private:
  std::array<int, 2> pipe_{};
  ::pid_t process_ = 0;
};

World world_of(int processes, int process, std::string const& address) {
  return {.processes = processes,
          .process = process,
          .local_process = process,
          .rendezvous = {.address = address, .token = "test"}};
}

/// What a process knows after it: process 0 brings @p text, the others nothing.
std::string meet(World const& world, std::string text, std::chrono::milliseconds timeout = 20s) {
  if (world.process != 0) {
    text.assign(text.size(), '?');
  }
  rendezvous(world, std::as_writable_bytes(std::span{text.data(), text.size()}), timeout);
  return text;
}

bool contains(std::string const& text, std::string const& part) {
  bool const found = text.find(part) != std::string::npos;
  if (!found) {
    std::printf("'%s' does not contain '%s'\n", text.c_str(), part.c_str());
  }
  return found;
}

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

TEST_CASE("processes that do not agree hear so, on both sides") {
  test::Watchdog const watchdog{"disagree"};
  for_both([](std::string const& address, Folder const* folder) {
    {
      Child one{[&] { return meet(world_of(3, 1, address), "12345"); }};
      Child zero{[&] { return meet(world_of(2, 0, address), "12345"); }};
      std::string const text =
          "process 0 was told that there are 2 processes, but process 1 that "
          "there are 3";
      CHECK(contains(zero.result(), text));
      CHECK(contains(one.result(), "contract: "));
    }
    Child one{[&] { return meet(world_of(2, 1, address), "1234"); }};
    Child zero{[&] { return meet(world_of(2, 0, address), "12345"); }};
    CHECK(contains(zero.result(), "contract: "));
    CHECK(contains(one.result(), "process 1 asks process 0 for 4 bytes instead of 5"));
    if (folder != nullptr) {
      CHECK(folder->files() == 0);
    }
  });
}

/// A connection to 127.0.0.1 that says @p text and stays open for the life of the result.
detail::Socket say(std::string const& address, std::string const& text) {
  ::sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(10))));
  for (;;) {
    detail::Socket socket{::socket(AF_INET, SOCK_STREAM, 0)};
    if (::connect(socket.get(), reinterpret_cast<::sockaddr*>(&to), sizeof to) == 0) {
      [[maybe_unused]] auto const sent =
          ::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL);
      return socket;
    }
    std::this_thread::sleep_for(5ms);
  }
}

TEST_CASE("strangers who connect hold nobody up and learn nothing") {
  test::Watchdog const watchdog{"strangers"};
  std::string const address = "127.0.0.1:" + std::to_string(free_port());
  Child zero{[&] { return meet(world_of(2, 0, address), "secret"); }};
  detail::Socket const silent = say(address, "");
  detail::Socket const talker = say(address, std::string(1000, 'g'));
  detail::Socket const half = say(address, "GET / HTTP");
  detail::Hello const hello = detail::hello_of(world_of(2, 1, address), 6);
  {
    detail::Socket const torn =
        say(address, std::string{reinterpret_cast<char const*>(&hello), sizeof hello - 3});
  }
  World other = world_of(2, 1, address);
  other.rendezvous.token = "another run";
  Child stranger{[&] { return meet(other, "123456", 300ms); }};
  CHECK(contains(stranger.result(), "time-out: "));
  std::array<char, 64> answer{};
  CHECK(::recv(talker.get(), answer.data(), answer.size(), 0) <= 0);
  Child one{[&] { return meet(world_of(2, 1, address), "123456"); }};
  CHECK(one.result() == "secret");
  CHECK(zero.result() == "secret");
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
    detail::Socket const peer{::accept(listener, nullptr, nullptr)};
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

TEST_CASE("files of runs that died are not taken for this one's") {
  test::Watchdog const watchdog{"stale files"};
  Folder const folder;
  std::string const address = folder.file();
  std::string const path = address.substr(5);
  World const old = world_of(2, 1, address);
  detail::Hello const stale = detail::hello_of(old, 3);
  auto const bytes = std::as_bytes(std::span{&stale, 1});
  std::string const lie = "lie";
  detail::RollCall const dead{old, std::as_bytes(std::span{lie.data(), lie.size()})};
  for (int const which : {0, 1, 2, 3}) {
    CAPTURE(which);
    if (which == 0 || which == 3) {
      detail::write_small_file(path + ".1.hello", bytes, 1);
    }
    if (which == 1 || which == 3) {
      detail::write_small_file(path + ".1.answer", dead.answer(stale, ""), 2);
    }
    if (which == 2 || which == 3) {
      detail::write_small_file(path + ".1.done", bytes, 3);
    }
    {
      Child zero{[&] {
        std::this_thread::sleep_for(which == 0 ? 0ms : 50ms);
        return meet(world_of(2, 0, address), "new");
      }};
      std::this_thread::sleep_for(which == 0 ? 100ms : 0ms);  // let process 0 answer the dead one
      Child one{[&] { return meet(world_of(2, 1, address), "new"); }};
      CHECK(one.result() == "new");
      CHECK(zero.result() == "new");
    }
    CHECK(folder.files() == 0);
  }
  std::ofstream{path + ".1.hello"} << "garbage";
  std::ofstream{path + ".1.answer"} << "garbage";
  Child zero{[&] { return meet(world_of(2, 0, address), "new"); }};
  Child one{[&] { return meet(world_of(2, 1, address), "new"); }};
  CHECK(one.result() == "new");
  CHECK(zero.result() == "new");
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
  CHECK(contains(message("file:/no/such/folder/x", 1), "'/no/such/folder/x.1.hello'"));
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
