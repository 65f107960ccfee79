// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
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
namespace {

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

static_assert(!std::is_copy_constructible_v<AtomicFile>);
static_assert(!std::is_move_constructible_v<AtomicFile>);

/// No file of this process may grow beyond @p bytes, and write() says EFBIG if one would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(::rlim_t bytes) : handler_{std::signal(SIGXFSZ, SIG_IGN)} {
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

TEST_CASE("a full disk: the old file stays, the temporary file goes") {
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
  CHECK(what == "'" + path +
                    "': cannot write the new content: File too large; the previous file, if there "
                    "was one, is untouched");
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a full disk under write_safetensors, in the header and in the data") {
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

TEST_CASE("a folder that is missing") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("missing/x");
  CHECK(test::message<FileError>([&] { AtomicFile const file{path}; }) ==
        "'" + path +
            "': cannot create a temporary file beside it: No such file or directory; the previous "
            "file, if there was one, is untouched");
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

TEST_CASE("a committed file is closed") {
  test::TemporaryFolder const folder;
  AtomicFile file{folder.file("x")};
  file.commit();
  auto const sentence = "AtomicFile: this file is closed, after commit() or a call that threw";
  CHECK(test::contains(test::message<ContractError>([&] { file.commit(); }), sentence));
  CHECK(test::contains(test::message<ContractError>([&] { file.write({}); }), sentence));
  CHECK(folder.entries() == 1);
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

}  // namespace
}  // namespace tandem
