// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes a checkpoint as a folder, which appears whole or not at all.
///
/// In step-000420.tmp/: the tensors' files, then the index, then tandem.json, each flushed to the
/// disk; the folder is flushed, renamed to step-000420/, and the folder that it is in flushed. What
/// dies before the rename leaves the checkpoints that were there, and a .tmp that nobody reads.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/all.hpp>
#include <tandem/io/safetensors/layout.hpp>
#include <tandem/io/synced_file.hpp>
#include <tandem/train/checkpoint/check_finite.hpp>
#include <tandem/train/checkpoint/folder/index.hpp>
#include <tandem/train/checkpoint/folder/manifest.hpp>
#include <tandem/train/checkpoint/folder/names.hpp>
#include <tandem/train/checkpoint/folder/peers.hpp>
#include <tandem/train/checkpoint/processes/outline.hpp>
#include <tandem/train/checkpoint/weight_names.hpp>

namespace tandem::detail {

/// Whether a checkpoint's tensor is a parameter or a statistic of the network.
TANDEM_ONCE bool is_weight(std::string_view tensor);

/// The process of each of these sizes: the largest first, each to the one that has least, of equals
/// to the first. None has more than the mean and the largest size.
TANDEM_ONCE std::vector<int> deal(std::span<std::int64_t const> bytes, int processes);

/// Whole tensors, of the network in model-00001-of-0000N.safetensors and so on, all others in
/// optimizer-…: as many files as there are processes that have one.
class CheckpointShares {
 public:
  TANDEM_ONCE CheckpointShares(std::span<TensorView const> tensors, int processes);

  [[nodiscard]] int owner(std::size_t tensor) const { return owner_[tensor]; }
  [[nodiscard]] std::string const& file(std::size_t tensor) const { return file_[tensor]; }

 private:
  TANDEM_ONCE static std::vector<std::int64_t> sizes_of(std::span<TensorView const> tensors);
  static std::string five_digits(std::ptrdiff_t number) {
    std::string const digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  }

  std::vector<int> owner_;
  std::vector<std::string> file_;
};

/// What is to be written.
struct CheckpointContents {
  std::vector<TensorView> tensors{};  ///< all, in the same order in all processes
  SafetensorsMetadata metadata{};     ///< of each file
  CheckpointManifest about{};         ///< but for the files
};

/// Of the tensors only those that this process writes keep their data.
TANDEM_ONCE void take_share(CheckpointContents& contents, CheckpointPeers const& peers);

/// Writes a checkpoint into @p folder, which is made where it is not there; one of the same step is
/// replaced. Of several processes each calls it: it writes its share, and process 0, when all have,
/// the rest.
/// @returns its path; in process 0 it is complete
/// @throws FileError  anything fails, or a number is inf or nan and refused: all complete
///                    checkpoints are as they were
TANDEM_ONCE std::string write_checkpoint_folder(std::string const& folder,
                                                CheckpointContents const& contents,
                                                NonFinite non_finite = NonFinite::refused,
                                                CheckpointPeers const& peers = {});

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE bool is_weight(std::string_view tensor) {
  return std::none_of(std::begin(beside_weights), std::end(beside_weights),
                      [&](std::string_view start) { return tensor.starts_with(start); });
}

TANDEM_ONCE std::vector<int> deal(std::span<std::int64_t const> bytes, int processes) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes[a] > bytes[b]; });
  std::vector<std::int64_t> load(static_cast<std::size_t>(processes));
  std::vector<int> owner(bytes.size());
  for (std::size_t const i : order) {
    auto const least = std::min_element(load.begin(), load.end());
    *least += bytes[i];
    owner[i] = static_cast<int>(least - load.begin());
  }
  return owner;
}

TANDEM_ONCE CheckpointShares::CheckpointShares(std::span<TensorView const> tensors, int processes)
    : owner_{deal(sizes_of(tensors), processes)} {
  std::array<std::vector<int>, 2> writers;  // of others, and of the network's
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    writers[is_weight(tensors[i].name) ? 1 : 0].push_back(owner_[i]);
  }
  for (std::vector<int>& list : writers) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    bool const weight = is_weight(tensors[i].name);
    std::vector<int> const& list = writers[weight ? 1 : 0];
    auto const at = std::lower_bound(list.begin(), list.end(), owner_[i]) - list.begin();
    file_.push_back((weight ? "model-" : "optimizer-") + five_digits(at + 1) + "-of-" +
                    five_digits(std::ssize(list)) + ".safetensors");
  }
}

TANDEM_ONCE std::vector<std::int64_t> CheckpointShares::sizes_of(
    std::span<TensorView const> tensors) {
  std::vector<std::int64_t> sizes;
  for (TensorView const& tensor : tensors) {
    sizes.push_back(*tensor_bytes(tensor.dtype, tensor.shape));
  }
  return sizes;
}

TANDEM_ONCE void take_share(CheckpointContents& contents, CheckpointPeers const& peers) {
  CheckpointShares const shares{contents.tensors, peers.processes};
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    if (shares.owner(i) != peers.process) {
      contents.tensors[i].data = {};
    }
  }
}

/// One file of these tensors.
TANDEM_ONCE FileSum write_tensor_file(std::string const& folder, std::string const& name,
                                      std::vector<TensorView> const& tensors,
                                      SafetensorsMetadata const& metadata) {
  std::vector<TensorSpec> specs;
  for (TensorView const& tensor : tensors) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  SyncedFile file{folder, name};
  std::string const header = write_safetensors_header(specs, with_checksums(tensors, metadata));
  file.write(std::as_bytes(std::span{header}));
  for (TensorView const& tensor : tensors) {
    file.write(tensor.data);
  }
  return file.finish();
}

/// The files of one process, in the order of their names.
TANDEM_ONCE std::vector<FileSum> write_share(std::string const& folder,
                                             CheckpointContents const& contents,
                                             CheckpointShares const& shares, int process) {
  std::vector<std::pair<std::string, std::vector<TensorView>>> files;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    if (shares.owner(i) == process) {
      auto at = std::find_if(files.begin(), files.end(),
                             [&](auto const& file) { return file.first == shares.file(i); });
      if (at == files.end()) {
        at = files.insert(at, {shares.file(i), {}});
      }
      at->second.push_back(contents.tensors[i]);
    }
  }
  std::vector<FileSum> sums;
  for (auto const& [name, tensors] : files) {
    sums.push_back(write_tensor_file(folder, name, tensors, contents.metadata));
  }
  return sums;
}

/// The index of the network's tensors.
TANDEM_ONCE FileSum write_index_file(std::string const& folder, CheckpointContents const& contents,
                                     CheckpointShares const& shares) {
  std::vector<IndexEntry> entries;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < contents.tensors.size(); ++i) {
    TensorView const& tensor = contents.tensors[i];
    if (is_weight(tensor.name)) {
      entries.push_back({tensor.name, shares.file(i)});
      bytes += *tensor_bytes(tensor.dtype, tensor.shape);
    }
  }
  return write_synced(folder, index_name, write_index(entries, bytes));
}

/// Exchanges the names of two folders in one call.
/// @returns 0, or the errno: EINVAL, ENOSYS or ENOTSUP where the system or the disk cannot do it
TANDEM_ONCE int exchange_names([[maybe_unused]] char const* from, [[maybe_unused]] char const* to) {
#if defined(RENAME_EXCHANGE)  // Linux
  return ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0 ? 0 : errno;
#elif defined(RENAME_SWAP)  // macOS
  return ::renamex_np(from, to, RENAME_SWAP) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

/// Gives a folder another name; what has that name goes.
/// @returns 0, or the errno of the call that failed
TANDEM_ONCE int take_name(std::string const& from, std::string const& to) {
  if (!is_folder(to)) {
    return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
  }
  int const error = exchange_names(from.c_str(), to.c_str());
  if (error != EINVAL && error != ENOSYS && error != ENOTSUP) {
    return error;
  }
  std::string const aside = from + std::string{temporary_suffix};  // a network disk cannot exchange
  if (std::rename(to.c_str(), aside.c_str()) != 0 || std::rename(from.c_str(), to.c_str()) != 0) {
    return errno;
  }
  remove_folder(aside);
  return 0;
}

/// What several processes have written can be loaded: each tensor stands in one file, no other
/// does.
/// Cost: the files' headers are read.
/// @throws FileError  it cannot
TANDEM_ONCE void check_loadable(std::string const& folder, std::vector<TensorView> const& tensors) {
  LoadedBytes bytes;
  Safetensors const all = outline_of(folder, read_start(folder, bytes)).tensors;
  for (TensorView const& own : tensors) {
    TensorView const* const found = all.find(own.name);
    if (found == nullptr || found->dtype != own.dtype || found->shape != own.shape) {
      throw FileError{folder, "no process has written the tensor " + json_quoted(own.name) +
                                  " that process 0 has; give all processes the same options"};
    }
  }
  if (all.tensors().size() != tensors.size()) {
    throw FileError{folder,
                    "another process has written tensors that process 0 does not have; give all "
                    "processes the same options"};
  }
}

/// Behind all shares: index and tandem.json are written, and the folder gets its name.
TANDEM_ONCE void finish_folder(std::string const& folder, CheckpointContents const& contents,
                               CheckpointShares const& shares, std::vector<FileSum> files,
                               int processes) {
  std::string const path = in_folder(folder, checkpoint_name(contents.about.step));
  std::string const own = path + std::string{temporary_suffix};
  for (std::string const& name : names_in(own)) {  // of an earlier run
    if (std::none_of(files.begin(), files.end(), [&](auto const& f) { return f.name == name; })) {
      static_cast<void>(::unlink(in_folder(own, name).c_str()));
    }
  }
  files.push_back(write_index_file(own, contents, shares));
  CheckpointManifest manifest = contents.about;
  manifest.processes = processes;
  manifest.files = std::move(files);
  write_synced(own, manifest_name, write_manifest(manifest));
  if (processes > 1) {
    check_loadable(own, contents.tensors);
  }
  auto const must = [&](int error, char const* what) {
    if (error != 0) {
      throw FileError{path, std::string{what} + ": " + std::generic_category().message(error)};
    }
  };
  must(sync_folder(own.c_str()), "cannot flush the folder to the disk");
  must(take_name(own, path), "cannot give the folder this name");
  must(sync_folder(folder.c_str()),
       "it is in place, but the folder that it is in cannot be flushed, so that a power failure "
       "may take it away");
  remove_folder(own);  // of the checkpoint that had the name, if any
}

/// What has failed, and what is left.
TANDEM_ONCE [[noreturn]] void fail_to_write(std::string const& folder, std::int64_t step,
                                            std::string const& problem) {
  auto const complete = complete_checkpoints(folder);
  throw FileError{in_folder(folder, checkpoint_name(step)),
                  "this checkpoint was not written: " + problem +
                      (complete.empty() ? "; there is no other in the folder"
                                        : "; the newest that is complete is " +
                                              checkpoint_name(complete.back()))};
}

TANDEM_ONCE std::string write_checkpoint_folder(std::string const& folder,
                                                CheckpointContents const& contents,
                                                NonFinite non_finite,
                                                CheckpointPeers const& peers) {
  std::string path = in_folder(folder, checkpoint_name(contents.about.step));
  std::string const own = path + std::string{temporary_suffix};
  CheckpointShares const shares{contents.tensors, peers.processes};
  try {
    if (non_finite == NonFinite::refused) {
      check_finite(path, contents.tensors);
    }
  } catch (FileError const& error) {
    if (peers.process != 0) {
      report_share(own, peers, {.error = error.what()});
    }
    throw;
  }
  try {
    make_folders(own);
    std::vector<FileSum> files = write_share(own, contents, shares, peers.process);
    if (peers.process != 0) {
      report_share(own, peers, {.files = std::move(files)});
      return path;
    }
    for (int process = 1; process < peers.processes; ++process) {
      std::vector<FileSum> const theirs = await_share(own, peers, process);
      files.insert(files.end(), theirs.begin(), theirs.end());
    }
    std::sort(files.begin(), files.end(),
              [](FileSum const& a, FileSum const& b) { return a.name < b.name; });
    finish_folder(folder, contents, shares, std::move(files), peers.processes);
  } catch (FileError const& error) {
    if (peers.process != 0) {
      report_share(own, peers, {.error = error.what()});
    } else {
      remove_folder(own);  // which may have filled the disk
    }
    fail_to_write(folder, contents.about.step, error.what());
  }
  remove_unfinished(folder, contents.about.step);
  return path;
}

}  // namespace tandem::detail

#endif
