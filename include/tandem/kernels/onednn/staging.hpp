// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Staging: a tensor on its way between our layout and the one that a primitive wants.

#include <cstddef>
#include <cstdint>

#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/version.hpp>

namespace tandem::onednn {

/// Where both layouts are one, nothing is copied and no memory is wanted. Move-only.
class Staging {
 public:
  enum class Way : bool { in, out };

  Staging() = default;
  Staging(Library const& library, DescriptorView ours, DescriptorView theirs, Way way) {
    if (!same_layout(ours, theirs)) {
      bytes_ = rounded_up(bytes_of(theirs));
      reorder_ = way == Way::in ? make_reorder(library, ours, theirs)
                                : make_reorder(library, theirs, ours);
    }
  }

  /// Of the staged tensor.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::int64_t scratch_bytes() const noexcept { return reorder_.scratch_bytes(); }

  /// Where the primitive reads @p x: at @p staged, if that is wanted.
  void const* enter(Library const& library, std::byte* scratch, void const* x, std::byte* staged) {
    if (bytes_ == 0) {
      return x;
    }
    reorder_.run(library, scratch, x, staged);
    return staged;
  }

  /// Where the primitive writes @p y.
  [[nodiscard]] void* place(void* y, std::byte* staged) const { return bytes_ == 0 ? y : staged; }
  /// Brings what it wrote to @p y.
  void leave(Library const& library, std::byte* scratch, std::byte* staged, void* y) {
    if (bytes_ > 0) {
      reorder_.run(library, scratch, staged, y);
    }
  }

 private:
  Primitive reorder_;
  std::int64_t bytes_ = 0;
};

}  // namespace tandem::onednn
