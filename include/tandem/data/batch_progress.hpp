// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchProgress: which batches of an epoch are read, being read, and to be read, by several
/// threads.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/data/loader_options.hpp>

namespace tandem {

/// The batches of an epoch in a ring: each is opened, its samples are claimed in pieces, in their
/// order, and it is filled once all of them are finished and those before it are filled. Whoever
/// calls holds the Loader's mutex.
class BatchProgress {
 public:
  static constexpr std::size_t slots = 3;

  /// Samples [begin, end) of the batch in a slot.
  struct Piece {
    std::size_t slot = 0;
    int begin = 0;
    int end = 0;
  };

  /// Of positions [first, end), in batches of @p batch, of which @p part samples are read in about
  /// @p pieces.
  BatchProgress(std::int64_t first, std::int64_t end, int batch, bool drop_last, int part,
                int pieces)
      : next_{first},
        end_{end},
        batch_{batch},
        drop_last_{drop_last},
        piece_{std::max(1, part / pieces)} {}

  // ---- the consumer

  [[nodiscard]] bool is_filled() const { return filled_ > taken_; }
  [[nodiscard]] std::size_t filled_slot() const { return taken_ % slots; }
  void take() { ++taken_; }

  // ---- a reader

  [[nodiscard]] bool has_piece() const {
    return opened_ > 0 && claimed_ < part_[(opened_ - 1) % slots].end;
  }

  /// Samples of the batch behind those that are opened; 0 at the end of the epoch.
  [[nodiscard]] int next_size() const {
    int const size = end_ - next_ < batch_ ? static_cast<int>(end_ - next_) : batch_;
    return size < batch_ && drop_last_ ? 0 : size;
  }
  [[nodiscard]] std::int64_t next_position() const { return next_; }
  [[nodiscard]] std::size_t next_slot() const { return opened_ % slots; }
  /// Whether its slot is free.
  [[nodiscard]] bool may_open() const { return opened_ - taken_ < slots; }

  /// The next batch, of which @p part is to be read; whether a batch is filled by it.
  /// @pre all pieces are claimed, may_open()
  TANDEM_ONCE bool open(BatchPart part);

  /// @pre has_piece()
  TANDEM_ONCE Piece claim();

  /// Whether a batch is filled by it.
  [[nodiscard]] bool finish(Piece const& piece) {
    finished_[piece.slot] += piece.end - piece.begin;
    return fill();
  }

 private:
  TANDEM_ONCE bool fill();

  std::int64_t next_;  // position of the first sample that is in no opened batch
  std::int64_t end_;
  int batch_;
  bool drop_last_;
  int piece_;               // samples
  std::size_t taken_ = 0;   // batches given back by the consumer
  std::size_t filled_ = 0;  // batches since the start that are read, and all before them
  std::size_t opened_ = 0;  // batches whose samples are known
  int claimed_ = 0;         // samples of the last of them, up to which one
  BatchPart part_[slots] = {};
  int finished_[slots] = {};
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE bool BatchProgress::open(BatchPart part) {
  part_[opened_ % slots] = part;
  finished_[opened_ % slots] = 0;
  claimed_ = part.begin;
  next_ += next_size();
  ++opened_;
  return fill();
}

TANDEM_ONCE BatchProgress::Piece BatchProgress::claim() {
  Piece piece{(opened_ - 1) % slots, claimed_, 0};
  int const left = part_[piece.slot].end - claimed_;
  piece.end = claimed_ += std::min(left, piece_);
  return piece;
}

TANDEM_ONCE bool BatchProgress::fill() {
  std::size_t const before = filled_;
  while (filled_ < opened_ && finished_[filled_ % slots] == part_[filled_ % slots].size()) {
    ++filled_;
  }
  return filled_ != before;
}

}  // namespace tandem

#endif
