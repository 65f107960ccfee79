// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <tandem/io/atomic/file.hpp>

#include "temporary_folder.hpp"

namespace tandem {
namespace atomic_leftovers_test {

TEST_CASE("what dead processes left is removed, and nothing else") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  for (char const* const dead : {"x.tmp-1-0", "x.tmp-999999999-12"}) {
    test::put(folder.file(dead), "left");
  }
  std::string const own = path + ".tmp-" + std::to_string(::getpid()) + "-0";
  test::put(own, "of a process that had this number");
  std::vector<char const*> const others{"x.tmp-",     "x.tmp-1",   "x.tmp-1-a",   "x.tmp-1-",
                                        "xx.tmp-1-0", "y.tmp-1-0", "x.tmp-1-0-0", "x"};
  for (char const* const other : others) {
    test::put(folder.file(other), other);
  }
  std::filesystem::create_directory(folder.file("x.tmp-5-0"));
  std::filesystem::create_symlink("y.tmp-1-0", folder.file("x.tmp-6-0"));
  {
    AtomicFile file{path};
    CHECK(folder.entries() == 11);  // with its own
    file.write(test::bytes("new"));
    file.commit();
  }
  CHECK(folder.entries() == 10);
  CHECK(test::content(path) == "new");
  for (std::size_t i = 0; i + 1 < others.size(); ++i) {
    CHECK(test::content(folder.file(others[i])) == others[i]);
  }
}

/// A process that has begun to write @p path, and waits to be killed.
class Saver {
 public:
  explicit Saver(std::string const& path) {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      AtomicFile file{path};
      file.write(test::bytes("half"));
      static_cast<void>(!::write(ready[1], "r", 1));
      for (;;) {
        ::pause();
      }
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Saver(Saver const&) = delete;
  Saver& operator=(Saver const&) = delete;
  ~Saver() { kill(); }

  void kill() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
      child_ = 0;
    }
  }

 private:
  ::pid_t child_ = 0;
};

TEST_CASE("a living saver's temporary file stays, a killed one's goes") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  Saver living{path};
  {
    Saver dead{path};
    CHECK(folder.entries() == 2);
  }
  CHECK(folder.entries() == 2);
  {
    AtomicFile file{path};
    CHECK(folder.entries() == 2);  // its own and the living one's
    file.commit();
  }
  CHECK(folder.entries() == 2);
  living.kill();
  AtomicFile file{path};
  CHECK(folder.entries() == 2);
}

TEST_CASE("a temporary file that another process is about to remove is not used") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  std::string const name = path + ".tmp-" + std::to_string(::getpid()) + "-0";
  test::put(name, "left");
  int const locked = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(::flock(locked, LOCK_EX) == 0);
  AtomicFile file{path};
  CHECK(test::content(name) == "left");
  file.write(test::bytes("new"));
  file.commit();
  ::close(locked);
  CHECK(test::content(path) == "new");
  AtomicFile const next{path};  // takes the name, which is nobody's now
  CHECK(test::content(name).empty());
}

}  // namespace atomic_leftovers_test
}  // namespace tandem
