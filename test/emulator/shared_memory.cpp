// SPDX-License-Identifier: Apache-2.0

#include "shared_memory.hpp"

#include <link.h>

#include <algorithm>
#include <cstring>

namespace cuda_emulator {
namespace {

constexpr unsigned char pattern = 0xFF;

struct Range {
  unsigned char* begin = nullptr;
  std::size_t bytes = 0;
};

// The thread-local block of the main program, the first object of the list, on this thread.
Range program_block() {
  Range range;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data != nullptr) {
            *static_cast<Range*>(result) = {static_cast<unsigned char*>(info->dlpi_tls_data),
                                            info->dlpi_phdr[i].p_memsz};
          }
        }
        return 1;
      },
      &range);
  return range;
}

// One kernel runs at a time; the vector is kept for its memory.
std::vector<unsigned char>& save_area() {
  static std::vector<unsigned char> area;
  return area;
}

}  // namespace

SharedMemory::SharedMemory() : saved_{save_area()} {
  Range const range = program_block();
  begin_ = range.begin;
  bytes_ = range.bytes;
  if (bytes_ != 0) {
    saved_.resize(std::max(saved_.size(), bytes_));
    std::memcpy(saved_.data(), begin_, bytes_);
    std::memset(begin_, pattern, bytes_);
  }
  low_ = bytes_;
}

SharedMemory::~SharedMemory() {
  if (bytes_ != 0) {
    std::memcpy(begin_, saved_.data(), bytes_);
  }
}

void SharedMemory::after_block() {
  ++blocks_;
  if ((blocks_ & (blocks_ - 1)) == 0) {
    constexpr std::size_t step = 64;
    static constexpr auto clean = [] {
      struct {
        unsigned char byte[step];
      } block{};
      for (unsigned char& byte : block.byte) {
        byte = pattern;
      }
      return block;
    }();
    std::size_t written = 0;
    for (std::size_t at = 0; at < bytes_; at += step) {
      std::size_t const size = std::min(step, bytes_ - at);
      if (std::memcmp(begin_ + at, clean.byte, size) != 0) {
        low_ = std::min(low_, at);
        high_ = std::max(high_, at + size);
        written += size;
      }
    }
    most_written_ = std::max(most_written_, written);
  }
  if (low_ < high_) {
    std::memset(begin_ + low_, pattern, high_ - low_);
  }
}

}  // namespace cuda_emulator
