// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rendezvous() over files: two for each process but the first, none of which is left behind.
///
/// A process asks in PATH.hello.<random>, process 0 answers in PATH.answer.<number>, where the
/// number is known only to who can read the hello, and the process thanks by removing both. Files
/// of others are ignored, whatever they are called: the file system says whose a file is. No name
/// can be taken in advance, so that a folder as /tmp will do, where all may make files and remove
/// only their own. Files of a run that died answer nobody: their numbers are not those of this
/// call.

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/private_file.hpp>
#include <tandem/comm/rendezvous/roll.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>

namespace tandem::detail {

/// Calls @p f with each file whose path begins with @p path, while f says that it goes on.
/// @throws FileError  the folder cannot be read
template <class F>
void for_each_file(std::string const& path, F const& f) {
  std::size_t const slash = path.rfind('/');
  std::string const folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  std::string_view const begin = std::string_view{path}.substr(slash + 1);  // of all if no slash
  std::unique_ptr<::DIR, int (*)(::DIR*)> const open{::opendir(folder.c_str()), ::closedir};
  if (open == nullptr) {
    throw FileError{printable(folder),
                    "cannot be read for the rendezvous: " + std::generic_category().message(errno)};
  }
  for (::dirent const* entry = ::readdir(open.get()); entry != nullptr;
       entry = ::readdir(open.get())) {
    std::string_view const name = entry->d_name;
    if (name.substr(0, begin.size()) == begin &&
        !f(std::string{path}.append(name.substr(begin.size())))) {
      return;
    }
  }
}

inline void remove_file(std::string const& path) { static_cast<void>(::unlink(path.c_str())); }

inline std::string answer_of(std::string const& path, std::string const& number) {
  return path + ".answer." + number;
}
inline std::string thanks_of(std::string const& path, std::string const& number) {
  return path + ".thanks." + number;
}

TANDEM_ONCE void rendezvous_over_files(World const& world, std::span<std::byte> data,
                                       std::chrono::milliseconds timeout, Patience& patience);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// The hellos that process 0 has answered, until thanks have come. Removes what is left.
class AnsweredFiles {
 public:
  explicit AnsweredFiles(std::string const& path) : path_{path} {}
  AnsweredFiles(AnsweredFiles const&) = delete;
  AnsweredFiles& operator=(AnsweredFiles const&) = delete;
  ~AnsweredFiles() {
    for (File const& file : files_) {
      remove(file);
    }
  }

  [[nodiscard]] bool has(std::string const& hello) const {
    return std::ranges::any_of(files_, [&hello](File const& file) { return file.hello == hello; });
  }

  /// @throws FileError  the answer cannot be written
  void add(std::string const& path, Hello const& hello, RollCall::Reply const& reply) {
    File const file{path, hex(hello.nonce), reply.process};
    remove_file(answer_of(path_, file.number));  // of a process 0 that died
    make_private_file(answer_of(path_, file.number), reply.bytes);
    files_.push_back(file);
  }

  /// Notes those who have thanked.
  void look(RollCall& calls) {
    std::erase_if(files_, [this, &calls](File const& file) {
      if (!read_private_file(thanks_of(path_, file.number), 1).is_private) {
        return false;
      }
      if (file.process != 0) {
        calls.note(file.process);
      }
      remove(file);
      return true;
    });
  }

 private:
  struct File {
    std::string hello;
    std::string number;
    int process;
  };

  void remove(File const& file) const {
    remove_file(file.hello);
    remove_file(answer_of(path_, file.number));
    remove_file(thanks_of(path_, file.number));  // last: then the process is done
  }

  std::string const& path_;
  std::vector<File> files_;
};

/// Process 0's side: answers each process, again if it asks again, until it thanks.
TANDEM_ONCE void answer_over_files(World const& world, RendezvousKey const& key,
                                   std::string const& path, std::span<std::byte const> data,
                                   std::chrono::milliseconds timeout, Patience& patience) {
  RollCall calls{world, key, data};
  AnsweredFiles answered{path};
  for (;;) {
    std::int64_t strangers = 0;
    for_each_file(path + ".hello.", [&](std::string const& name) {
      if (answered.has(name)) {
        return true;
      }
      PrivateFile const file = read_private_file(name, sizeof(Hello) + 1);
      strangers += file.is_private || file.error == ENOENT ? 0 : 1;
      Hello hello;
      if (parse_message(file.bytes, hello) && key.proves(hello, Nonce{})) {  // else another run's
        RollCall::Reply const reply = calls.reply(hello);
        if (!reply.bytes.empty()) {
          answered.add(name, hello, reply);
        }
      }
      return patience.left_ms() > 0;
    });
    calls.note_strangers(strangers);
    answered.look(calls);
    if (calls.complete()) {
      return;
    }
    if (!patience.pause()) {
      calls.time_out(timeout);
    }
  }
}

/// Any other process's side. It is done when process 0 has seen its thanks: its next hello, were it
/// there before, would be taken for one of this rendezvous.
TANDEM_ONCE void ask_over_files(World const& world, RendezvousKey const& key,
                                std::string const& path, std::span<std::byte> data,
                                std::chrono::milliseconds timeout, Patience& patience) {
  Hello hello = make_hello(world, data.size());
  hello.signature = key.sign(hello, Nonce{});
  std::string const number = hex(hello.nonce);
  struct Asked {
    std::string path;
    ~Asked() { remove_file(path); }
  };
  Asked asked{path + ".hello." + hex(make_nonce())};
  make_private_file(asked.path, bytes_of(hello));
  std::string why = "no answer";
  auto const wait = [&] {
    if (!patience.pause()) {
      throw TimeoutError{at_rendezvous(world) + "process 0 did not answer process " +
                         std::to_string(world.process) + " within " + to_string(timeout) + " (" +
                         why + ")"};
    }
  };
  auto const thank = [&] {
    std::string const thanks = thanks_of(path, number);
    if (::rename(asked.path.c_str(), thanks.c_str()) == 0) {
      asked.path = thanks;
    }
  };
  try {
    while (
        !take_answer(world, key, hello,
                     read_private_file(answer_of(path, number), sizeof(Answer) + data.size()).bytes,
                     data, why)) {
      wait();
    }
  } catch (ContractError const&) {
    thank();
    asked.path.clear();  // process 0 removes it
    throw;
  }
  thank();
  why = "it did not take the thanks";
  while (::access(asked.path.c_str(), F_OK) == 0) {
    wait();
  }
}

TANDEM_ONCE void rendezvous_over_files(World const& world, std::span<std::byte> data,
                                       std::chrono::milliseconds timeout, Patience& patience) {
  std::string const path = world.rendezvous.address.substr(5);
  expects(!path.empty() && path.back() != '/',
          "rendezvous: write file:PATH with the name of a file that need not exist");
  RendezvousKey const key{"", world.rendezvous.token};  // of one start; the files keep others away
  if (world.process == 0) {
    answer_over_files(world, key, path, data, timeout, patience);
  } else {
    ask_over_files(world, key, path, data, timeout, patience);
  }
}

}  // namespace tandem::detail

#endif
