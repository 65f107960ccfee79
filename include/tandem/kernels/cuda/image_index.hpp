// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ImageIndex: which sample, pixel and channels of a channels-last tensor a thread works on.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cuda/divider.hpp>

namespace tandem::cuda {

/// A place in a tensor (B, H, W, C).
struct ImageIndex {
  std::int64_t sample;
  int row, column, channel;

  /// Of its element; @p extent and @p channels are the tensor's.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t offset(Extent2d extent,
                                                                 int channels) const {
    return offset(extent, channels, row, column);
  }
  /// Of the element at another pixel, in the same sample and channel.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr std::int64_t offset(Extent2d extent, int channels,
                                                                 int h, int w) const {
    return ((sample * extent.height + h) * extent.width + w) * channels + channel;
  }
};

/// Threads of a tensor (B, extent, channels), one for each `width` neighbouring channels.
class ImageThreads {
 public:
  /// @pre channels is a multiple of width
  ImageThreads(Extent2d extent, int channels, int width)
      : items_{std::int64_t{extent.height} * extent.width * (channels / width)},
        width_{width},
        packs_{channels / width},
        columns_{extent.width},
        rows_{extent.height} {}

  /// The same threads for the samples from @p first on.
  [[nodiscard]] ImageThreads from(std::int64_t first) const {
    ImageThreads result = *this;
    result.first_sample_ = first;
    return result;
  }

  /// Of one sample.
  [[nodiscard]] std::int64_t items() const { return items_; }

  /// Thread @p t, channels fastest.
  [[nodiscard]] TANDEM_HOST_DEVICE constexpr ImageIndex operator()(std::uint32_t t) const {
    std::uint32_t pack = t;
    std::uint32_t column = packs_.split(pack);
    std::uint32_t row = columns_.split(column);
    std::uint32_t const sample = rows_.split(row);
    return {first_sample_ + static_cast<std::int64_t>(sample), static_cast<int>(row),
            static_cast<int>(column), static_cast<int>(pack) * width_};
  }

 private:
  std::int64_t items_;
  std::int64_t first_sample_ = 0;
  int width_;
  Divider packs_, columns_, rows_;
};

}  // namespace tandem::cuda
