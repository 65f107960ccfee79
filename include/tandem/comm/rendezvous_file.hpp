// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rendezvous() over files: three for each process but the first, none of which is left behind.
///
/// A process asks in PATH.<process>.hello, process 0 answers in PATH.<process>.answer, and the
/// process thanks by renaming its hello to PATH.<process>.done, which process 0 removes. Files of a
/// run that died answer nobody: their numbers are not those of this call.

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous_hello.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/error.hpp>

namespace tandem::detail {

/// The whole of a small file, or nothing if there is none or it is no plain file of this user's.
inline std::vector<std::byte> read_small_file(std::string const& path) {
  std::vector<std::byte> bytes;
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) {
    return bytes;
  }
  bytes.resize(sizeof(Answer) + largest_rendezvous + 1);
  std::size_t size = 0;
  for (;;) {
    ::ssize_t const got = ::read(file, bytes.data() + size, bytes.size() - size);
    if (got <= 0 && !(got < 0 && errno == EINTR)) {
      break;
    }
    size += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  static_cast<void>(::close(file));
  bytes.resize(size);
  return bytes;
}

/// Gives @p bytes the name @p path at once: nobody sees a part of them.
/// @throws FileError  the folder does not exist, or cannot be written
inline void write_small_file(std::string const& path, std::span<std::byte const> bytes,
                             std::uint64_t nonce) {
  auto const fail = [&path](int error) {
    throw FileError{
        path, "cannot be written for the rendezvous: " + std::generic_category().message(error)};
  };
  std::string const temporary = path + ".tmp-" + std::to_string(nonce);
  int const file =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) {
    fail(errno);
  }
  bool const whole =
      ::write(file, bytes.data(), bytes.size()) == static_cast<::ssize_t>(bytes.size());
  int error = whole ? 0 : errno != 0 ? errno : EIO;
  if (::close(file) != 0 && error == 0) {
    error = errno;
  }
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error != 0) {
    static_cast<void>(::unlink(temporary.c_str()));
    fail(error);
  }
}

/// The hello in @p path; its magic is 0 if there is none.
inline Hello read_hello(std::string const& path) {
  auto const bytes = read_small_file(path);
  Hello hello{.magic = 0};
  if (bytes.size() == sizeof hello) {
    std::memcpy(&hello, bytes.data(), sizeof hello);
  }
  return hello;
}

/// Process 0's side: answers each process, again if it asks again, until it thanks.
inline void answer_over_files(World const& world, std::string const& path,
                              std::span<std::byte const> data, std::chrono::milliseconds timeout) {
  RollCall calls{world, data};
  std::vector<Hello> answered(static_cast<std::size_t>(world.processes), Hello{.magic = 0});
  Patience patience = rendezvous_patience(timeout);
  for (;;) {
    for (int process = 1; process < world.processes; ++process) {
      if (calls.has_come(process)) {
        continue;
      }
      Hello& last = answered[static_cast<std::size_t>(process)];
      std::string const name = path + "." + std::to_string(process);
      if (Hello const done = read_hello(name + ".done"); done.magic != 0) {
        static_cast<void>(::unlink((name + ".answer").c_str()));
        static_cast<void>(::unlink((name + ".done").c_str()));
        if (last.magic != 0 && done.nonce == last.nonce) {
          calls.note(last);
        }
        continue;
      }
      Hello const hello = read_hello(name + ".hello");
      if (hello.process != process || !calls.expected(hello) || hello.nonce == last.nonce) {
        continue;
      }
      std::string const fault = calls.fault(hello);
      write_small_file(name + ".answer", calls.answer(hello, fault), hello.nonce);
      if (!fault.empty()) {
        throw ContractError{fault};
      }
      last = hello;
    }
    if (calls.complete()) {
      return;
    }
    if (!patience.pause()) {
      calls.time_out(timeout);
    }
  }
}

/// Any other process's side.
inline void ask_over_files(World const& world, std::string const& path, std::span<std::byte> data,
                           std::chrono::milliseconds timeout) {
  Patience patience = rendezvous_patience(timeout);
  std::string const name = path + "." + std::to_string(world.process);
  auto const wait = [&](std::string const& what) {
    if (!patience.pause()) {
      static_cast<void>(::unlink((name + ".hello").c_str()));
      throw TimeoutError{at_rendezvous(world) + "process 0 did not " + what + " process " +
                         std::to_string(world.process) + " within " + to_string(timeout)};
    }
  };
  while (::access((name + ".done").c_str(), F_OK) == 0) {  // of an earlier rendezvous
    wait("answer");
  }
  Hello const hello = hello_of(world, data.size());
  write_small_file(name + ".hello", std::as_bytes(std::span{&hello, 1}), hello.nonce);
  try {
    while (!take_answer(hello, read_small_file(name + ".answer"), data)) {
      wait("answer");
    }
  } catch (ContractError const&) {
    static_cast<void>(::unlink((name + ".answer").c_str()));
    static_cast<void>(::unlink((name + ".hello").c_str()));
    throw;
  }
  if (std::rename((name + ".hello").c_str(), (name + ".done").c_str()) != 0) {
    throw FileError{name + ".hello",
                    "cannot be renamed: " + std::generic_category().message(errno) +
                        "; do two processes have the same number?"};
  }
}

inline void rendezvous_over_files(World const& world, std::span<std::byte> data,
                                  std::chrono::milliseconds timeout) {
  std::string const path = world.rendezvous.address.substr(5);
  expects(!path.empty() && path.back() != '/',
          "rendezvous: write file:PATH with the name of a file that need not exist");
  if (world.process == 0) {
    answer_over_files(world, path, data, timeout);
  } else {
    ask_over_files(world, path, data, timeout);
  }
}

}  // namespace tandem::detail
