// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <type_traits>
#include <utility>

#include <tandem/core/error.hpp>
#include <tandem/io/atomic/file.hpp>

#include "temporary_folder.hpp"

namespace tandem {
namespace atomic_file_test {

static_assert(!std::is_copy_constructible_v<AtomicFile>);
static_assert(!std::is_move_constructible_v<AtomicFile>);

TEST_CASE("commit gives the file its name; before that the old content is there") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  AtomicFile file{path};
  CHECK(file.path() == path);
  file.write(test::bytes("new "));
  file.write({});
  file.write(test::bytes("content"));
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 2);
  file.commit();
  CHECK(test::content(path) == "new content");
  CHECK(folder.entries() == 1);
}

TEST_CASE("the file may be new, and has the permissions of any new file") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  ::mode_t const mask = ::umask(027);
  AtomicFile file{path};
  ::umask(mask);
  file.commit();
  struct ::stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  CHECK(test::content(path).empty());
}

TEST_CASE("a path without a folder is in the current one") {
  test::TemporaryFolder const folder;
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(folder.name());
  {
    AtomicFile file{"x"};
    file.write(test::bytes("here"));
    file.commit();
  }
  std::filesystem::current_path(before);
  CHECK(test::content(folder.file("x")) == "here");
}

TEST_CASE("without commit nothing changes and nothing is left") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  {
    AtomicFile file{path};
    file.write(test::bytes("new"));
  }
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("two at once have a temporary file each, and neither removes the other's") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  AtomicFile first{path};
  AtomicFile second{path};
  first.write(test::bytes("first"));
  second.write(test::bytes("second"));
  CHECK(folder.entries() == 2);
  second.commit();
  first.commit();
  CHECK(test::content(path) == "first");
  CHECK(folder.entries() == 1);
}

TEST_CASE("links are followed and stay") {
  test::TemporaryFolder const folder;
  std::filesystem::create_directory(folder.file("real"));
  std::string const target = folder.file("real/x");
  test::put(target, "old");
  std::filesystem::create_symlink("real/x", folder.file("near"));
  std::filesystem::create_symlink(folder.file("near"), folder.file("far"));
  std::filesystem::create_symlink("real/new", folder.file("to nothing"));
  for (char const* const link : {"near", "far"}) {
    AtomicFile file{folder.file(link)};
    file.write(test::bytes(link));
    file.commit();
    CHECK(test::content(target) == link);
    CHECK(std::filesystem::is_symlink(folder.file(link)));
  }
  {
    AtomicFile file{folder.file("to nothing")};
    file.write(test::bytes("there"));
    file.commit();
  }
  CHECK(test::content(folder.file("real/new")) == "there");
  CHECK(std::filesystem::is_symlink(folder.file("to nothing")));
  CHECK(folder.entries() == 4);

  std::filesystem::create_symlink("round", folder.file("round"));
  CHECK(
      test::contains(test::message<FileError>([&] { AtomicFile const file{folder.file("round")}; }),
                     "symbolic links go round in a circle here; give the name of a file"));
}

TEST_CASE("the permissions and the owner of what was there stay") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  bool const root = ::geteuid() == 0;
  for (::mode_t const mode : {0600U, 0664U, 0755U}) {
    test::put(path, "old");
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    if (root) {
      REQUIRE(::chown(path.c_str(), 12345, 54321) == 0);
    }
    AtomicFile file{path};
    file.commit();
    struct ::stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == mode);
    CHECK(status.st_uid == (root ? 12345 : ::geteuid()));
    CHECK((!root || status.st_gid == 54321));
  }
}

/// What a saver says that is no superuser, or "" if nothing; "?" where it cannot be one.
std::string refusal_of_a_user(std::string const& path) {
  int said[2];
  REQUIRE(::pipe(said) == 0);
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string text;
    if (::geteuid() == 0 && (::setegid(54321) != 0 || ::seteuid(12345) != 0)) {
      text = "?";
    } else {
      try {
        AtomicFile const file{path};
      } catch (FileError const& error) {
        text = error.what();
      }
    }
    static_cast<void>(!::write(said[1], text.data(), text.size()));
    ::_exit(0);
  }
  ::close(said[1]);
  std::string text(1000, '\0');
  text.resize(static_cast<std::size_t>(::read(said[0], text.data(), text.size())));
  ::close(said[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST_CASE("a write-protected file, or another user's, is not replaced") {
  test::TemporaryFolder const folder;
  std::filesystem::permissions(folder.name(), std::filesystem::perms::all);
  std::string const path = folder.file("x");
  test::put(path, "old");
  REQUIRE(::chmod(path.c_str(), 0444) == 0);
  std::string const text = refusal_of_a_user(path);
  if (text == "?") {
    MESSAGE("skipped: this process cannot be another user");
    return;
  }
  CHECK(text == "'" + path +
                    "': the file is write-protected (Permission denied); allow writing to it, or "
                    "save under another name");
  if (::geteuid() == 0) {
    REQUIRE(::chmod(path.c_str(), 0666) == 0);
    CHECK(test::contains(refusal_of_a_user(path),
                         "cannot give the new content the owner and group of the file that is "
                         "there, so save under another name or remove it: Operation not permitted; "
                         "the previous file, if there was one, is untouched"));
  }
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a device, a pipe and a folder are not replaced") {
  test::TemporaryFolder const folder;
  std::filesystem::create_directory(folder.file("folder"));
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  std::filesystem::create_symlink("/dev/full", folder.file("full"));
  for (auto const& [name, kind] :
       {std::pair{"folder", "folder"}, {"pipe", "pipe"}, {"full", "device"}}) {
    std::string const path = folder.file(name);
    CHECK(test::message<FileError>([&] { AtomicFile const file{path}; }) ==
          "'" + path + "': this is a " + kind +
              ", which a file would replace; give the name of a file");
  }
  CHECK(test::contains(test::message<FileError>([] { AtomicFile const file{"/dev/full"}; }),
                       "this is a device"));
  CHECK(std::filesystem::is_directory(folder.file("folder")));
  CHECK(std::filesystem::is_fifo(folder.file("pipe")));
  CHECK(std::filesystem::is_symlink(folder.file("full")));
  CHECK(folder.entries() == 3);
}

TEST_CASE("a folder that is missing") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("missing/x");
  CHECK(test::message<FileError>([&] { AtomicFile const file{path}; }) ==
        "'" + path +
            "': cannot create a temporary file beside it: No such file or directory; the previous "
            "file, if there was one, is untouched");
}

TEST_CASE("a committed file is closed") {
  test::TemporaryFolder const folder;
  AtomicFile file{folder.file("x")};
  file.commit();
  auto const sentence = "AtomicFile: this file is closed, after commit() or a call that threw";
  CHECK(test::contains(test::message<ContractError>([&] { file.commit(); }), sentence));
  CHECK(test::contains(test::message<ContractError>([&] { file.write({}); }), sentence));
  CHECK(folder.entries() == 1);
}

}  // namespace atomic_file_test
}  // namespace tandem
