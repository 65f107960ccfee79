// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CarriedRows: what a rank's ops hand from rows of time to later ones, for each sample of a step.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// Node by node, and of each sample by sample. Nothing is allocated before the first step that
/// carries; gather() has two arrays, of which it fills the other.
template <class Backend>
class CarriedRows {
 public:
  using Device = typename Backend::Device;
  using Buffer = typename Backend::Buffer;

  /// @param bytes  of each node, what it carries of a sample
  TANDEM_COLD explicit CarriedRows(std::vector<std::int64_t> bytes) : bytes_{std::move(bytes)} {}

  /// Sequences of @p samples begin anew: there is room for what they hand on.
  void begin(Device& device, std::int64_t samples) { make_room(device, now_, samples); }

  /// Sample b is from now on what sample @p parents[b] was; zeros where that is -1.
  void gather(Device& device, std::span<std::int32_t const> parents) {
    if (is_identity(parents)) {
      return;
    }
    auto const samples = static_cast<std::int64_t>(parents.size());
    make_room(device, now_, 1);  // none yet where the rank had no sample: nobody's parent is here
    make_room(device, then_, samples);
    for (std::size_t n = 0; n < bytes_.size(); ++n) {
      if (bytes_[n] > 0) {
        gather_rows(device, at(now_, n), at(then_, n), parents.data(), samples, bytes_[n]);
      }
    }
    std::swap(now_, then_);
  }

  /// That of sample @p first of node @p n, behind which the others stand; null if it has none.
  [[nodiscard]] std::byte* at(int n, std::int64_t first) const {
    auto const node = static_cast<std::size_t>(n);
    return bytes_[node] > 0 && now_.samples > 0 ? at(now_, node) + first * bytes_[node] : nullptr;
  }

  [[nodiscard]] std::int64_t bytes() const { return size(now_) + size(then_); }

 private:
  struct Array {
    std::unique_ptr<Buffer> memory{};
    std::int64_t samples = 0;
    std::vector<std::int64_t> first{};  // of each node
  };

  static std::int64_t size(Array const& array) {
    return array.memory != nullptr ? static_cast<std::int64_t>(array.memory->bytes()) : 0;
  }
  static std::byte* at(Array const& array, std::size_t node) {
    return array.memory->data() + array.first[node];
  }
  TANDEM_COLD void make_room(Device& device, Array& array, std::int64_t samples) const {
    if (samples <= array.samples) {
      return;
    }
    array = {};  // before there is another
    std::int64_t bytes = 0;
    for (std::int64_t const own : bytes_) {
      array.first.push_back(bytes);
      bytes += detail::aligned(own * samples);
    }
    array.memory = std::make_unique<Buffer>(device, static_cast<std::size_t>(bytes));
    array.samples = samples;
  }
  /// A backend that writes and translates nothing need not have this verb.
  template <class V = Verbs<Backend>>
  static void gather_rows(auto&&... arguments) {
    if constexpr (requires { V::gather_rows(arguments...); }) {
      V::gather_rows(arguments...);
    } else {
      expects(false, "translate(data): Verbs of this backend have no gather_rows(); give it them");
    }
  }
  // A step of fewer samples takes the first ones as they are.
  [[nodiscard]] bool is_identity(std::span<std::int32_t const> parents) const {
    bool same = static_cast<std::int64_t>(parents.size()) <= now_.samples;
    for (std::size_t b = 0; same && b < parents.size(); ++b) {
      same = parents[b] == static_cast<std::int32_t>(b);
    }
    return same;
  }

  std::vector<std::int64_t> bytes_;
  Array now_;
  Array then_;
};

}  // namespace tandem
