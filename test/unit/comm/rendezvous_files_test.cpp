// SPDX-License-Identifier: Apache-2.0
// rendezvous() among other users' files, and the file that holds the token: what is not this
// user's alone is neither read, followed, waited for nor in the way.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous_processes.hpp"
#include "watchdog.hpp"

namespace tandem {
namespace rendezvous_files_test {

using namespace test;

constexpr ::uid_t nobody = 65534;

/// A hello that is right in all; only its file may be wrong.
detail::Hello right_hello(World const& world) {
  detail::Hello hello = detail::make_hello(world, 3);
  hello.signature = detail::RendezvousKey{"", world.rendezvous.token}.sign(hello, {});
  return hello;
}

/// What others may leave at @p path; @p content is what a file of this user's would hold there.
struct Obstacle {
  char const* name;
  void (*make)(std::string const& path, std::string const& content);
  bool needs_root = false;
};

void make_file(std::string const& path, std::string const& content, ::mode_t mode) {
  std::ofstream{path, std::ios::binary} << content;
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

Obstacle const obstacles[] = {
    {"a folder", [](std::string const& path,
                    std::string const&) { REQUIRE(::mkdir(path.c_str(), 0700) == 0); }},
    {"a FIFO", [](std::string const& path,
                  std::string const&) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }},
    {"a link",
     [](std::string const& path, std::string const& content) {
       make_file(path + "-aim", content, 0600);
       REQUIRE(::symlink((path + "-aim").c_str(), path.c_str()) == 0);
     }},
    {"a link to nothing",
     [](std::string const& path, std::string const&) {
       REQUIRE(::symlink("/nowhere/at/all", path.c_str()) == 0);
     }},
    {"a file that others may read",
     [](std::string const& path, std::string const& content) { make_file(path, content, 0644); }},
    {"a file that the group may write",
     [](std::string const& path, std::string const& content) { make_file(path, content, 0620); }},
    {"another user's file",
     [](std::string const& path, std::string const& content) {
       make_file(path, content, 0600);
       REQUIRE(::chown(path.c_str(), nobody, nobody) == 0);
     },
     true},
};

/// f(obstacle) for all that can be made; the others are skipped visibly.
template <class F>
void for_each_obstacle(F const& f) {
  for (Obstacle const& obstacle : obstacles) {
    if (obstacle.needs_root && ::geteuid() != 0) {
      MESSAGE("skipped: only root can make " << obstacle.name);
      continue;
    }
    CAPTURE(obstacle.name);
    f(obstacle);
  }
}

TEST_CASE("files: what is not this user's alone can neither join nor block") {
  Watchdog const watchdog{"obstacles"};
  for_each_obstacle([](Obstacle const& obstacle) {
    Folder const folder;
    World const world = world_of(2, 1, folder.file());
    std::string const path = folder.file().substr(5);
    detail::Hello const hello = right_hello(world);
    std::string const text{text_of(hello)};
    for (char const* const name : {".hello.1", ".1.hello", ".1.answer", ".1.done", ".answer.1"}) {
      obstacle.make(path + name, text);
    }
    Child zero{[&] { return meet(world_of(2, 0, folder.file()), "new"); }};
    Child one{[&] { return meet(world, "???"); }};
    CHECK(one.result() == "new");
    CHECK(zero.result() == "new");
    CHECK_FALSE(std::filesystem::exists(path + ".answer." + detail::hex(hello.nonce)));
    CHECK(std::filesystem::symlink_status(path + ".hello.1").type() !=
          std::filesystem::file_type::not_found);  // others' files are let alone
  });
}

TEST_CASE("files: time-outs tell of what was ignored, and in printable text") {
  Watchdog const watchdog{"ignored files"};
  Folder const folder;
  std::string const address = folder.file() + "\x1b[31m\n";
  make_file(address.substr(5) + ".hello.x", "anything", 0644);
  Child zero{[&] { return meet(world_of(2, 0, address), "new", 100ms); }};
  std::string const message = zero.result();
  CHECK(contains(message, "meet\\x1B[31m\\x0A': process 1 of 2 did not come within 100 ms; 1 who"));
  CHECK(message.find('\x1b') == std::string::npos);
  Child one{[&] { return meet(world_of(2, 1, address), "new", 100ms); }};
  CHECK(contains(one.result(), "meet\\x1B[31m\\x0A': process 0 did not answer process 1"));
  Child lost{[&] { return meet(world_of(2, 1, "file:/no\x1b/x"), "new", 100ms); }};
  CHECK(contains(lost.result(), "'/no\\x1B/x.hello."));
}

TEST_CASE("files: garbage of this user's own, torn hellos among it, is in nobody's way") {
  Watchdog const watchdog{"garbage"};
  Folder const folder;
  World const world = world_of(3, 1, folder.file());
  std::string const path = folder.file().substr(5);
  detail::Hello forged = right_hello(world);
  forged.process = 2;  // after it was signed
  std::string const text{text_of(forged)};
  make_file(path + ".hello.1", text, 0600);
  make_file(path + ".hello.2", text.substr(0, 30), 0600);
  make_file(path + ".hello.3", text + "more", 0600);
  make_file(path + ".hello.4", "", 0600);
  make_file(path + ".hello.5", std::string(100000, '\xff'), 0600);
  Child zero{[&] { return meet(world_of(3, 0, folder.file()), "new"); }};
  Child one{[&] { return meet(world, "???"); }};
  Child two{[&] { return meet(world_of(3, 2, folder.file()), "???"); }};
  CHECK(one.result() == "new");
  CHECK(two.result() == "new");
  CHECK(zero.result() == "new");
  CHECK(folder.files() == 5);
}

TEST_CASE("private files are made new, and for this user alone") {
  Folder const folder;
  std::string const path = (folder.path / "file").string();
  detail::make_private_file(path, detail::bytes_of(std::string_view{"text"}));
  struct ::stat what {};
  REQUIRE(::stat(path.c_str(), &what) == 0);
  CHECK((what.st_mode & 0777U) == 0600);
  CHECK(detail::read_private_file(path, 100).bytes.size() == 4);
  CHECK(detail::read_private_file(path, 3).bytes.size() == 3);
  CHECK_THROWS_AS(detail::make_private_file(path, {}), FileError);
  std::string const link = (folder.path / "link").string();
  REQUIRE(::symlink((folder.path / "aim").c_str(), link.c_str()) == 0);
  CHECK_THROWS_AS(detail::make_private_file(link, {}), FileError);
  CHECK_FALSE(std::filesystem::exists(folder.path / "aim"));
}

std::string token(std::string const& path) {
  detail::Patience patience{10s};
  try {
    return detail::token_of_file(path, patience);
  } catch (Error const& error) {
    return error.what();
  }
}

TEST_CASE("the token file is made once, by whoever is first, and is random") {
  Watchdog const watchdog{"token"};
  Folder const folder;
  std::string const path = (folder.path / "token").string();
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(std::make_unique<Child>([&] { return token(path); }));
  }
  std::string const first = token(path);
  CHECK(first.size() == 32);
  CHECK(first.find_first_not_of("0123456789abcdef") == std::string::npos);
  for (auto const& child : children) {
    CHECK(child->result() == first);
  }
  CHECK(folder.files() == 1);
  CHECK(token(path + "2") != first);
  struct ::stat what {};
  REQUIRE(::stat(path.c_str(), &what) == 0);
  CHECK((what.st_mode & 0777U) == 0600);
}

TEST_CASE("a token file of the user's own, and those that cannot be used") {
  Watchdog const watchdog{"token files"};
  Folder const folder;
  std::string const path = (folder.path / "token").string();
  make_file(path, "a token that I made myself\r\n", 0600);
  CHECK(token(path) == "a token that I made myself");
  make_file(path, "too short\n", 0600);
  CHECK(contains(token(path), "holds no token of 16 to 4095 characters"));
  make_file(path, std::string(5000, 'x'), 0600);
  CHECK(contains(token(path), "holds no token of 16 to 4095 characters"));
  CHECK(contains(token("/no/such/folder/token"), "set TANDEM_TOKEN to the same random text"));
  for_each_obstacle([](Obstacle const& obstacle) {
    Folder const other;
    std::string const at = (other.path / "token").string();
    obstacle.make(at, "a token that somebody else made\n");
    std::string const message = token(at);
    CHECK(message.find("somebody else") == std::string::npos);
    bool const said = message.find("must be a plain file of this user's") != std::string::npos ||
                      message.find("cannot be read for the token") != std::string::npos;
    CHECK_MESSAGE(said, message);
  });
}

}  // namespace rendezvous_files_test
}  // namespace tandem
