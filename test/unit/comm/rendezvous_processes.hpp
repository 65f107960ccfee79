// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Processes that meet, and strangers who come in between: for the tests of rendezvous().

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include <tandem/comm/rendezvous/rendezvous.hpp>

namespace tandem::test {

using namespace std::chrono_literals;

/// A port that was free a moment ago.
inline int free_port() {
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
  void send(int signal) const { REQUIRE(::kill(process_, signal) == 0); }
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

inline World world_of(int processes, int process, std::string const& address) {
  return {.processes = processes,
          .process = process,
          .local_process = process,
          .rendezvous = {.address = address, .token = "test"}};
}

/// What a process knows after it: process 0 brings @p text, the others nothing.
inline std::string meet(World const& world, std::string text,
                        std::chrono::milliseconds timeout = 20s) {
  if (world.process != 0) {
    text.assign(text.size(), '?');
  }
  rendezvous(world, std::as_writable_bytes(std::span{text.data(), text.size()}), timeout);
  return text;
}

inline bool contains(std::string const& text, std::string const& part) {
  bool const found = text.find(part) != std::string::npos;
  if (!found) {
    std::printf("'%s' does not contain '%s'\n", text.c_str(), part.c_str());
  }
  return found;
}

/// A connection to 127.0.0.1 on which @p bytes were said, as soon as somebody listens there: waits
/// for ever for a process 0 that has met all the others.
inline detail::Descriptor say(std::string const& address, std::string_view bytes) {
  ::sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(10))));
  for (;;) {
    detail::Descriptor socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::connect(socket.get(), reinterpret_cast<::sockaddr*>(&to), sizeof to) == 0) {
      [[maybe_unused]] auto const sent =
          ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      return socket;
    }
    std::this_thread::sleep_for(5ms);
  }
}

/// All that comes until the other side closes.
inline std::string hear(detail::Descriptor const& socket) {
  std::string text;
  std::array<char, 512> buffer{};
  for (::ssize_t got = 1; got > 0;) {
    got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    text.append(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  }
  return text;
}

template <class Message>
std::string_view text_of(Message const& message) {
  return {reinterpret_cast<char const*>(&message), sizeof message};
}

}  // namespace tandem::test
