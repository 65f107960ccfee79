// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CheckpointWriter: writes a copy of a checkpoint on a thread of its own, while training goes on.

#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/own_process.hpp>
#include <tandem/train/checkpoint/folder/write.hpp>

namespace tandem::detail {

/// One checkpoint at a time. Memory: a copy of the tensors, kept for the next one.
class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  CheckpointWriter(CheckpointWriter const&) = delete;
  CheckpointWriter& operator=(CheckpointWriter const&) = delete;
  /// Finishes what is being written; for another process's share it waits only while that grows.
  ~CheckpointWriter() { end(); }

  /// Copies the tensors and begins to write them into @p folder, of which the newest @p keep stay;
  /// waits for the checkpoint before. Whatever fails is failure(), here or later.
  /// Cost: one pass over the tensors here, one allocation the first time.
  TANDEM_ONCE TANDEM_COLD void begin(std::string const& folder, CheckpointContents contents,
                                     int keep, CheckpointPeers peers);

  /// Why the last checkpoint was not written; null while it is being written, and where all is
  /// well.
  [[nodiscard]] std::exception_ptr failure() const {
    return done_.load(std::memory_order_acquire) ? failure_ : nullptr;
  }

  /// As the destructor.
  void end() {
    ends_ = true;
    join();
  }

  /// Waits for what is being written; in a child of fork() nothing is.
  void join() {
    if (process_.is_own() && thread_->joinable()) {
      thread_->join();
    }
  }

 private:
  TANDEM_ONCE void take_copy(std::string const& folder, CheckpointContents& contents,
                             CheckpointPeers const& peers);

  std::unique_ptr<std::byte[]> copy_;
  std::size_t size_ = 0;
  std::exception_ptr failure_;  // the thread's until it is done
  std::atomic<bool> done_{true};
  std::atomic<bool> ends_{false};
  OwnProcess process_;
  UnlessForked<std::thread> thread_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void CheckpointWriter::begin(std::string const& folder, CheckpointContents contents,
                                         int keep, CheckpointPeers peers) {
  join();
  failure_ = nullptr;
  try {
    take_copy(folder, contents, peers);
    peers.hurries = &ends_;
    done_.store(false, std::memory_order_relaxed);
    *thread_ = std::thread{[this, folder, keep, peers, own = std::move(contents)] {
      static_cast<void>(::setpriority(PRIO_PROCESS, 0, 10));  // of this thread: ranks come first
      try {
        write_checkpoint_folder(folder, own, NonFinite::refused, peers);
        if (peers.process == 0) {
          remove_oldest(folder, keep, own.about.step);
        }
      } catch (...) {
        failure_ = std::current_exception();
      }
      done_.store(true, std::memory_order_release);
    }};
  } catch (...) {
    failure_ = std::current_exception();
    done_.store(true, std::memory_order_relaxed);
  }
}

TANDEM_ONCE void CheckpointWriter::take_copy(std::string const& folder,
                                             CheckpointContents& contents,
                                             CheckpointPeers const& peers) {
  take_share(contents, peers);
  std::size_t bytes = 0;
  for (TensorView const& tensor : contents.tensors) {
    bytes += tensor.data.size();
  }
  if (bytes > size_) {
    copy_.reset();
    copy_.reset(new (std::nothrow) std::byte[bytes]);
    size_ = copy_ ? bytes : 0;
  }
  if (bytes > size_) {
    throw FileError{in_folder(folder, checkpoint_name(contents.about.step)),
                    "this checkpoint was not written: there is no memory for a copy of its " +
                        std::to_string(bytes) + " bytes"};
  }
  std::byte* to = copy_.get();
  for (TensorView& tensor : contents.tensors) {
    if (!tensor.data.empty()) {
      std::memcpy(to, tensor.data.data(), tensor.data.size());
    }
    tensor.data = {to, tensor.data.size()};
    to += tensor.data.size();
  }
}

}  // namespace tandem::detail

#endif
