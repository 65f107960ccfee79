// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// FilterOrder: the weights of convolutions, from the order of the network as the user wrote it to
/// that of a GPU, and back.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/engine/prepare/device_tables.hpp>

namespace tandem {

enum class FilterDirection { to_device, from_device };

/// Of arrays in the host's memory, in the layout of a device's parameters.
template <class T>
class FilterOrder {
 public:
  explicit FilterOrder(DeviceTables const& tables) : tables_{tables} {}

  /// The parameters before element @p end of the layout.
  TANDEM_COLD void reorder(T* values, FilterDirection direction, std::int64_t end) {
    for (int p = 0; p < tables_.graph.parameters; ++p) {
      Shape const shape = tables_.graph.parameter[p].parameter.shape;
      std::int64_t const at = tables_.layout.offset[p];
      if (shape.rank == 4 && at < end) {
        reorder_one(shape, values + at, direction);
      }
    }
  }

 private:
  // (Out, In, Kh, Kw) on the host, (Out, Kh, Kw, In) on the device.
  void reorder_one(Shape shape, T* values, FilterDirection direction) {
    std::int64_t const channels = shape[1];
    std::int64_t const taps = std::int64_t{shape[2]} * shape[3];
    if (channels == 1 || taps == 1) {
      return;
    }
    filter_.resize(static_cast<std::size_t>(channels * taps));
    for (int o = 0; o < shape[0]; ++o, values += channels * taps) {
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t t = 0; t < taps; ++t) {
          std::int64_t const host = c * taps + t;
          std::int64_t const there = t * channels + c;
          bool const down = direction == FilterDirection::from_device;
          filter_[static_cast<std::size_t>(down ? host : there)] = values[down ? there : host];
        }
      }
      std::memcpy(values, filter_.data(), filter_.size() * sizeof(T));
    }
  }

  DeviceTables const& tables_;
  std::vector<T> filter_;
};

}  // namespace tandem
