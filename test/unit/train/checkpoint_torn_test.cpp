// SPDX-License-Identifier: Apache-2.0
// A writer that is killed at any of its calls that change the disk leaves a complete checkpoint,
// the last or the new one; and everything is flushed before it gets its name.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/train/checkpoint/folder/read.hpp>
#include <tandem/train/checkpoint/folder/write.hpp>

#include <support/temporary_folder.hpp>

namespace {

int disk_calls = 0;
int fatal_call = 0;    // counted from 1, of this process; 0: none
int failing_call = 0;  // likewise; fails with failing_error
int failing_error = 0;
bool no_exchange = false;  // as of a network disk
std::vector<std::string>* disk_log = nullptr;

/// Before each call that changes the disk. Returns false for one that is to fail.
bool disk_call(char const* name, std::string const& what) {
  if (disk_log != nullptr) {
    disk_log->push_back(std::string{name} + " " + what);
  }
  ++disk_calls;
  if (disk_calls == fatal_call) {
    ::kill(::getpid(), SIGKILL);
  }
  errno = failing_error;
  return disk_calls != failing_call;
}

bool watched() { return disk_log != nullptr || fatal_call > 0 || failing_call > 0; }

std::string path_of(int descriptor) {
  return std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor)).string();
}

int result(long value) { return static_cast<int>(value); }

}  // namespace

// They stand before the C library's. None waits for the disk: a process that is killed takes
// nothing from it that was written.
extern "C" ::ssize_t write(int descriptor, void const* bytes, std::size_t size) {
  if (watched()) {
    bool const dies = disk_calls + 1 == fatal_call;
    if (dies) {  // half of it is there
      ::syscall(SYS_write, descriptor, bytes, size / 2);
    }
    if (!disk_call("write", path_of(descriptor))) {
      return -1;
    }
  }
  return static_cast<::ssize_t>(::syscall(SYS_write, descriptor, bytes, size));
}
extern "C" int fsync(int descriptor) {
  if (watched() && !disk_call("fsync", path_of(descriptor))) {
    return -1;
  }
  return ::fcntl(descriptor, F_GETFD) < 0 ? -1 : 0;
}
extern "C" int rename(char const* from, char const* to) noexcept {
  if (watched() && !disk_call("rename", std::string{from} + " " + to)) {
    return -1;
  }
  return result(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
extern "C" int renameat2(int from_folder, char const* from, int to_folder, char const* to,
                         unsigned flags) noexcept {
  if (no_exchange) {
    errno = EINVAL;
    return -1;
  }
  if (watched() && !disk_call("exchange", std::string{from} + " " + to)) {
    return -1;
  }
  return result(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
extern "C" int mkdir(char const* path, ::mode_t mode) noexcept {
  if (watched() && !disk_call("mkdir", path)) {
    return -1;
  }
  return result(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
extern "C" int unlink(char const* path) noexcept {
  if (watched() && !disk_call("unlink", path)) {
    return -1;
  }
  return result(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
extern "C" int rmdir(char const* path) noexcept {
  if (watched() && !disk_call("rmdir", path)) {
    return -1;
  }
  return result(::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

namespace tandem {
namespace checkpoint_torn_test {

/// A checkpoint whose numbers say which it is.
void write_checkpoint(std::string const& folder, std::int64_t step, float number, int keep,
                      detail::CheckpointPeers const& peers = {}) {
  std::vector<float> const weight(5, number);
  std::vector<float> const momentum(3, number);
  detail::CheckpointContents contents;
  contents.tensors = {
      {"0.weight", Dtype::F32, {5}, std::as_bytes(std::span{weight})},
      {"optimizer.momentum_buffer.0.weight", Dtype::F32, {3}, std::as_bytes(std::span{momentum})},
      {"tandem.step", Dtype::I64, {1}, std::as_bytes(std::span{&step, 1})}};
  contents.metadata = {{"optimizer", "Sgd"}};
  contents.about.step = step;
  contents.about.optimizer = "Sgd";
  detail::take_share(contents, peers);
  detail::write_checkpoint_folder(folder, contents, NonFinite::refused, peers);
  if (peers.process == 0) {
    detail::remove_oldest(folder, keep, step);
  }
}

/// The numbers of a checkpoint, which are all the same.
float number_of(std::string const& folder, std::int64_t step) {
  auto const file = detail::read_tensors(folder + "/" + detail::checkpoint_name(step));
  float first = 0;
  std::memcpy(&first, file.at("0.weight").data.data(), sizeof first);
  for (char const* const name : {"0.weight", "optimizer.momentum_buffer.0.weight"}) {
    std::span<std::byte const> const data = file.at(name).data;
    for (std::size_t at = 0; at < data.size(); at += sizeof(float)) {
      CHECK(std::memcmp(data.data() + at, &first, sizeof first) == 0);
    }
  }
  return first;
}

/// Whether f(), in a process of its own, came to its end before its call number @p call, at which
/// it is killed.
template <class F>
bool survives(int call, F const& f) {
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    disk_calls = 0;
    fatal_call = call;
    f();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0));
  return WIFEXITED(status);
}

TEST_CASE("a writer killed at every write, flush and rename leaves a complete checkpoint") {
  for (int const keep : {1, 2}) {
    int seen_new = 0;
    bool done = false;
    int call = 1;
    for (; !done; ++call) {
      CAPTURE(call);
      test::TemporaryFolder const folder;
      write_checkpoint(folder.name(), 10, 10.0F, keep);
      write_checkpoint(folder.name(), 20, 20.0F, keep);
      done = survives(call, [&] { write_checkpoint(folder.name(), 30, 30.0F, keep); });
      auto const steps = detail::complete_checkpoints(folder.name());
      REQUIRE_FALSE(steps.empty());
      CHECK((steps.back() == 20 || steps.back() == 30));
      CHECK((!done || steps.back() == 30));
      for (std::int64_t const step : steps) {
        CHECK(number_of(folder.name(), step) == static_cast<float>(step));
      }
      CHECK(std::ssize(steps) >= keep - (steps.back() == 20 ? 0 : 1));
      seen_new += steps.back() == 30 && !done ? 1 : 0;
      // The next run writes over what is left, and tidies up.
      write_checkpoint(folder.name(), 30, 31.0F, keep);
      write_checkpoint(folder.name(), 40, 40.0F, keep);
      CHECK(number_of(folder.name(), 40) == 40.0F);
      CHECK(folder.entries() == keep);
    }
    CHECK(call > 15);
    CHECK(seen_new > 0);  // between the rename and the end
  }
}

TEST_CASE("likewise where a checkpoint of the same step is replaced") {
  for (bool const exchanges : {true, false}) {
    bool done = false;
    for (int call = 1; !done; ++call) {
      CAPTURE(call);
      test::TemporaryFolder const folder;
      write_checkpoint(folder.name(), 10, 10.0F, 2);
      write_checkpoint(folder.name(), 20, 20.0F, 2);
      no_exchange = !exchanges;
      done = survives(call, [&] { write_checkpoint(folder.name(), 20, 21.0F, 2); });
      no_exchange = false;
      auto const steps = detail::complete_checkpoints(folder.name());
      REQUIRE_FALSE(steps.empty());
      CHECK(steps.front() == 10);
      CHECK((!exchanges || steps.back() == 20));  // without, for a moment there is the one before
      if (steps.back() == 20) {
        float const number = number_of(folder.name(), 20);
        CHECK((number == 21.0F || (!done && number == 20.0F)));
      }
      write_checkpoint(folder.name(), 30, 30.0F, 2);
      CHECK(folder.entries() == 2);
    }
  }
}

TEST_CASE("likewise where either of two processes is killed") {
  detail::CheckpointPeers first{.process = 0, .processes = 2, .run = 1};
  first.timeout = std::chrono::milliseconds{50};
  detail::CheckpointPeers const second{.process = 1, .processes = 2, .run = 1};
  for (int const killed : {0, 1}) {
    bool done = false;
    for (int call = 1; !done; ++call) {
      CAPTURE(killed);
      CAPTURE(call);
      test::TemporaryFolder const folder;
      write_checkpoint(folder.name(), 10, 10.0F, 2);
      auto const write_second = [&] { write_checkpoint(folder.name(), 20, 20.0F, 2, second); };
      auto const write_first = [&] {
        try {
          write_checkpoint(folder.name(), 20, 20.0F, 2, first);
        } catch (FileError const&) {  // the other has not come
        }
      };
      if (killed == 0) {
        write_second();
        done = survives(call, write_first);
      } else {
        done = survives(call, write_second);
        write_first();
      }
      auto const steps = detail::complete_checkpoints(folder.name());
      REQUIRE_FALSE(steps.empty());
      CHECK(number_of(folder.name(), 10) == 10.0F);
      CHECK((!done || steps.back() == 20));
      if (steps.back() == 20) {
        CHECK(number_of(folder.name(), 20) == 20.0F);
      }
      write_checkpoint(folder.name(), 30, 30.0F, 1);
      CHECK(folder.entries() == 1);
    }
  }
}

TEST_CASE("every file is flushed, and its folder, before it gets its name, and the parent behind") {
  test::TemporaryFolder const folder;
  std::vector<std::string> log;
  disk_log = &log;
  write_checkpoint(folder.name() + "/run", 7, 7.0F, 1);
  disk_log = nullptr;
  std::string const run = std::filesystem::canonical(folder.name()).string() + "/run";
  std::string const temporary = run + "/step-000007.tmp";
  std::string const names =
      "rename " + folder.name() + "/run/step-000007.tmp " + folder.name() + "/run/step-000007";
  auto const rename = std::find(log.begin(), log.end(), names);
  REQUIRE(rename != log.end());
  std::set<std::string> written;
  for (auto at = log.begin(); at != rename; ++at) {
    if (at->starts_with("write ")) {
      written.insert(at->substr(6));
    } else if (at->starts_with("fsync ")) {
      if (at->substr(6) == temporary) {
        CHECK(written.empty());
      }
      written.erase(at->substr(6));
    }
  }
  CHECK(written.empty());
  auto const last_write = std::find_if(std::make_reverse_iterator(rename), log.rend(),
                                       [](auto const& line) { return line.starts_with("write"); });
  CHECK(std::find(last_write.base(), rename, "fsync " + temporary) != rename);
  CHECK(std::find(rename, log.end(), "fsync " + run) != log.end());
  CHECK(std::find(log.begin(), rename, "fsync " + run.substr(0, run.rfind('/'))) != rename);
  CHECK(last_write != log.rend());
}

TEST_CASE("a disk that fails at any call leaves what was complete, and says so") {
  test::TemporaryFolder const folder;
  write_checkpoint(folder.name(), 10, 10.0F, 3);
  bool done = false;
  int sentences = 0;
  for (int call = 1; !done; ++call) {
    CAPTURE(call);
    disk_calls = 0;
    failing_call = call;
    failing_error = ENOSPC;
    std::string text;
    try {
      write_checkpoint(folder.name(), 20, 20.0F, 3);
    } catch (FileError const& error) {
      text = error.what();
    }
    done = disk_calls < call;
    failing_call = 0;
    auto const steps = detail::complete_checkpoints(folder.name());
    if (!text.empty()) {
      ++sentences;
      CAPTURE(text);
      CHECK(test::contains(text, "this checkpoint was not written: '"));
      CHECK(test::contains(text, "No space left on device"));
      CHECK(test::contains(text, "; the newest that is complete is step-0000"));
      CHECK(folder.entries() == std::ssize(steps));  // it does not fill the disk
    }
    CHECK(number_of(folder.name(), 10) == 10.0F);
    if (steps.back() ==
        20) {  // it has its name, but that was not flushed; or it was only tidied up
      CHECK(number_of(folder.name(), 20) == 20.0F);
      std::filesystem::remove_all(folder.file("step-000020"));
    }
  }
  CHECK(sentences > 10);
}

}  // namespace checkpoint_torn_test
}  // namespace tandem
