// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/io/safetensors/writer.hpp>

#include "temporary_folder.hpp"

namespace {

int fsync_calls = 0;
int failing_fsync = 0;  // the call that fails, counted from 1; 0: none
int fsync_error = 0;

}  // namespace

/// Stands before the C library's, so that a test can make a call fail; no disk here fails on
/// demand.
extern "C" int fsync(int descriptor) {
  if (++fsync_calls == failing_fsync) {
    errno = fsync_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace tandem {
namespace atomic_failure_test {

/// Makes one of the next calls of fsync fail.
class FailingFsync {
 public:
  FailingFsync(int call, int error) {
    fsync_calls = 0;
    failing_fsync = call;
    fsync_error = error;
  }
  FailingFsync(FailingFsync const&) = delete;
  FailingFsync& operator=(FailingFsync const&) = delete;
  ~FailingFsync() { failing_fsync = 0; }
};

/// No file of this process may grow beyond @p bytes; a write() that tries ends it by SIGXFSZ.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(::rlim_t bytes) : handler_{std::signal(SIGXFSZ, SIG_DFL)} {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    ::rlimit const limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(FileSizeLimit const&) = delete;
  FileSizeLimit& operator=(FileSizeLimit const&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  ::rlimit before_{};
  void (*handler_)(int);
};

TEST_CASE("a file beyond the process's limit: the old file stays, the temporary file goes") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  std::string const large(100'000, 'n');
  std::string what;
  {
    AtomicFile file{path};
    {
      FileSizeLimit const limit{4096};
      what = test::message<FileError>([&] { file.write(test::bytes(large)); });
    }
    CHECK(folder.entries() == 1);  // removed at once
    // A caller that goes on all the same does not put half a file there.
    CHECK_THROWS_AS(file.write(test::bytes("more")), ContractError);
    CHECK_THROWS_AS(file.commit(), ContractError);
  }
  {
    FileSizeLimit const limit{8};  // as much may be written
    AtomicFile file{folder.file("y")};
    file.write(test::bytes("1234"));
    file.write(test::bytes("5678"));
    file.commit();
  }
  std::filesystem::remove(folder.file("y"));
  CHECK(what == "'" + path +
                    "': cannot write the new content, which is larger than a file may be here "
                    "(ulimit -f): File too large; the previous file, if there was one, is "
                    "untouched");
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE(
    "a file beyond the process's limit under write_safetensors, in the header and in the data") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  std::string const large(100'000, 'n');
  std::vector<TensorView> const tensors{{"a", Dtype::U8, {100'000}, test::bytes(large)}};
  for (::rlim_t const limit : {16U, 4096U}) {
    FileSizeLimit const full{limit};
    CHECK(test::contains(test::message<FileError>([&] { write_safetensors(path, tensors); }),
                         "File too large; the previous file, if there was one, is untouched"));
  }
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("the content cannot be flushed: the old file stays") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  AtomicFile file{path};
  file.write(test::bytes("new"));
  FailingFsync const failing{1, EIO};
  CHECK(test::message<FileError>([&] { file.commit(); }) ==
        "'" + path +
            "': cannot flush the new content to the disk: Input/output error; the previous file, "
            "if there was one, is untouched");
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("the folder cannot be flushed: the text says that the new file is there") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  AtomicFile file{path};
  file.write(test::bytes("new"));
  FailingFsync const failing{2, EIO};
  CHECK(test::message<FileError>([&] { file.commit(); }) ==
        "'" + path +
            "': the new content is in place, but its folder cannot be flushed (Input/output "
            "error): a power failure may bring the previous file back");
  CHECK(test::content(path) == "new");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file system that cannot flush folders is no error") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  AtomicFile file{path};
  FailingFsync const failing{2, EINVAL};
  CHECK_NOTHROW(file.commit());
  CHECK(fsync_calls == 2);
}

TEST_CASE("write_all returns the error of a device without space") {
  int const descriptor = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) {
    MESSAGE("skipped: there is no /dev/full");
    return;
  }
  CHECK(detail::write_all(descriptor, test::bytes("x")) == ENOSPC);
  CHECK(detail::write_all(descriptor, {}) == 0);
  ::close(descriptor);
  CHECK(detail::write_all(descriptor, test::bytes("x")) == EBADF);
}

/// Fills a disk of 64 KiB at @p folder; returns 0, 1 if it cannot be mounted, or the check that
/// failed.
int fill_a_small_disk(std::string const& folder) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    return 1;
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") != 0) {
    return 1;
  }
  std::string const path = folder + "/x";
  {
    AtomicFile file{path};
    file.write(test::bytes("old"));
    file.commit();
  }
  try {
    AtomicFile file{path};
    file.write(test::bytes(std::string(100'000, 'n')));
    file.commit();
    return 2;
  } catch (FileError const& error) {
    if (!test::contains(error.what(), "No space left on device; the previous file")) {
      return 3;
    }
  }
  if (test::content(path) != "old") {
    return 4;
  }
  auto const entries = std::filesystem::directory_iterator{folder};
  return std::distance(begin(entries), end(entries)) == 1 ? 0 : 5;
}

TEST_CASE("a small disk that is full") {
  test::TemporaryFolder const folder;
  ::pid_t const child = ::fork();  // its mount is seen by no other process, and ends with it
  REQUIRE(child >= 0);
  if (child == 0) {
    ::_exit(fill_a_small_disk(folder.name()));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 1) {
    MESSAGE("skipped: no disk can be mounted here");
    return;
  }
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a name that cannot be replaced any more") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("a folder");
  AtomicFile file{path};
  file.write(test::bytes("new"));
  std::filesystem::create_directory(path);
  CHECK(test::message<FileError>([&] { file.commit(); }) ==
        "'" + path +
            "': cannot rename the new content to this name: Is a directory; the previous file, if "
            "there was one, is untouched");
  CHECK(folder.entries() == 1);
  CHECK(std::filesystem::is_directory(path));
}

TEST_CASE("a folder that is gone at the end") {
  test::TemporaryFolder const folder;
  std::filesystem::create_directory(folder.file("sub"));
  AtomicFile file{folder.file("sub/x")};
  std::filesystem::remove_all(folder.file("sub"));
  CHECK(test::contains(test::message<FileError>([&] { file.commit(); }),
                       "cannot rename the new content to this name: No such file or directory"));
  CHECK(detail::sync_folder(folder.file("sub").c_str()) == ENOENT);
  CHECK(detail::sync_folder(folder.name().c_str()) == 0);
}

}  // namespace atomic_failure_test
}  // namespace tandem
