// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How processes that write one checkpoint meet: in its folder.
///
/// Each writes its tensors' files, and when they are on the disk share-00002.json, which says so to
/// process 0. So nothing is sent while training goes on, and whoever writes is in nobody's way; the
/// folder must be one that all see.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/json/reader.hpp>
#include <tandem/io/json/string.hpp>
#include <tandem/io/safetensors/file.hpp>
#include <tandem/io/synced_file.hpp>
#include <tandem/train/checkpoint/folder/manifest.hpp>
#include <tandem/train/checkpoint/folder/names.hpp>

namespace tandem::detail {

/// Who writes: a process of several that see the folder, each its share.
struct CheckpointPeers {
  int process = 0;
  int processes = 1;
  std::uint64_t run = 0;  ///< the same in all: what an earlier run has left is not taken for theirs
  /// How long process 0 waits for another's share; 0: for ever.
  std::chrono::milliseconds timeout{};
  /// Where it becomes true, not longer than this without a file that grows.
  std::atomic<bool> const* hurries = nullptr;
  static constexpr std::chrono::milliseconds patience{10'000};
};

/// What a process has written, or why it has not.
struct ShareReport {
  std::uint64_t run = 0;
  std::string error{};
  std::vector<FileSum> files{};
};

inline std::string share_name(int process) { return "share-" + std::to_string(process) + ".json"; }

/// An empty file of this name says that the share failed where a full disk has no room for more.
inline std::string failed_share_name(int process, std::uint64_t run) {
  return "share-" + std::to_string(process) + "-of-" + std::to_string(run) + ".failed";
}

TANDEM_ONCE std::string write_report(ShareReport const& report);

/// @throws FileError  it is anything else
TANDEM_ONCE ShareReport read_report(std::string_view text, std::string const& path);

/// Says to process 0 how this process's share is; behind it all of the share is on the disk. Where
/// a report cannot be written its name alone says so.
TANDEM_ONCE void report_share(std::string const& folder, CheckpointPeers const& peers,
                              ShareReport report);

/// Bytes of the files in a folder.
TANDEM_ONCE std::uint64_t bytes_in(std::string const& folder);

/// The files of another process, when it has written them.
/// @throws FileError  it could not, or has not within the time-out
TANDEM_ONCE std::vector<FileSum> await_share(std::string const& folder,
                                             CheckpointPeers const& peers, int process);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string write_report(ShareReport const& report) {
  std::string text = "{\"run\": \"" + std::to_string(report.run) + "\", \"error\": ";
  append_json_string(text, is_utf8(report.error) ? report.error : "an error without words");
  return text + ", \"files\": {" + files_text(report.files) + "}}\n";
}

TANDEM_ONCE ShareReport read_report(std::string_view text, std::string const& path) {
  ShareReport report;
  JsonReader json{text, path, 0, "the file"};
  json.object([&](std::string const& key) {
    if (key == "run") {
      report.run = read_digits(json);
    } else if (key == "error") {
      report.error = json.string();
    } else if (key == "files") {
      report.files = read_files(json);
    } else {
      json.fail("the key " + json_quoted(key) + " is unknown");
    }
  });
  json.end();
  return report;
}

TANDEM_ONCE void report_share(std::string const& folder, CheckpointPeers const& peers,
                              ShareReport report) {
  report.run = peers.run;
  std::string const name = share_name(peers.process);
  try {
    make_folders(folder);
    write_synced(folder, name + ".part", write_report(report));
    std::string const path = in_folder(folder, name);
    int error = std::rename((path + ".part").c_str(), path.c_str()) == 0 ? 0 : errno;
    error = error == 0 ? sync_folder(folder.c_str()) : error;
    if (error != 0) {
      throw FileError{path, "cannot say that this process's share is written: " +
                                std::generic_category().message(error)};
    }
  } catch (FileError const&) {
    int const empty = ::open(in_folder(folder, failed_share_name(peers.process, peers.run)).c_str(),
                             O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (empty >= 0) {
      ::close(empty);
    }
    if (report.error.empty()) {
      throw;
    }
  }
}

TANDEM_ONCE std::uint64_t bytes_in(std::string const& folder) {
  std::uint64_t bytes = 0;
  for (std::string const& name : names_in(folder)) {
    struct ::stat status {};
    bytes += ::stat(in_folder(folder, name).c_str(), &status) == 0
                 ? static_cast<std::uint64_t>(status.st_size) + 1
                 : 0;
  }
  return bytes;
}

TANDEM_ONCE std::vector<FileSum> await_share(std::string const& folder,
                                             CheckpointPeers const& peers, int process) {
  using Clock = std::chrono::steady_clock;
  std::string const path = in_folder(folder, share_name(process));
  auto const begin = Clock::now();
  auto grew = begin;
  std::uint64_t bytes = 0;
  std::chrono::milliseconds pause{1};
  while (true) {
    if (is_file(path)) {
      FileBytes const file = read_whole_file(path);
      ShareReport report =
          read_report({reinterpret_cast<char const*>(file.bytes.get()), file.size}, path);
      if (report.run == peers.run && !report.error.empty()) {
        throw FileError{path, "process " + std::to_string(process) +
                                  " could not write its share: " + printable(report.error)};
      }
      if (report.run == peers.run) {
        return std::move(report.files);
      }
    }
    if (is_file(in_folder(folder, failed_share_name(process, peers.run)))) {
      throw FileError{path, "process " + std::to_string(process) +
                                " could not write its share, nor say why: is the disk full?"};
    }
    auto const now = Clock::now();
    bool const hurries = peers.hurries != nullptr && peers.hurries->load();
    if (std::uint64_t const size = hurries ? bytes_in(folder) : bytes; size != bytes || !hurries) {
      bytes = size;
      grew = now;
    }
    if ((peers.timeout.count() > 0 && now - begin >= peers.timeout) ||
        now - grew >= CheckpointPeers::patience) {
      throw FileError{path, "process " + std::to_string(process) +
                                " has not written its share by the time-out; it has failed, or "
                                "the folder is not the same on all machines"};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds{50});
  }
}

}  // namespace tandem::detail

#endif
