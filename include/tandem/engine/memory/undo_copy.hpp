// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// UndoCopy: what an update changes, as it was before.

#include <cstddef>
#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// Of a rank that has whole trained parameters and the states of all of them. Not the parameters as
/// products read them, where that is another form: make these anew behind give_back().
template <class Backend>
class UndoCopy {
 public:
  using Device = typename Backend::Device;
  using P = typename Backend::Master;

  /// @param trained  elements
  /// @param states   arrays of as many
  TANDEM_COLD UndoCopy(Device& device, std::int64_t trained, int states)
      : trained_{trained},
        states_{states},
        copy_{device, static_cast<std::size_t>(trained * (1 + states)) * sizeof(P)} {}

  /// Cost: a copy of all, 2 (1 + states) trained elements read and written.
  template <class Memory>
  void keep(Device& device, Memory const& memory) {
    for (int i = 0; i <= states_; ++i) {
      Verbs<Backend>::copy(device, place(memory, i), copy(i), trained_);
    }
  }
  /// All is as it was at keep().
  template <class Memory>
  void give_back(Device& device, Memory const& memory) const {
    for (int i = 0; i <= states_; ++i) {
      Verbs<Backend>::copy(device, copy(i), place(memory, i), trained_);
    }
  }

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(copy_.bytes()); }

 private:
  template <class Memory>
  static P* place(Memory const& memory, int i) {
    return i == 0 ? memory.parameters() : memory.state(i - 1);
  }
  [[nodiscard]] P* copy(int i) const { return copy_.template as<P>() + i * trained_; }

  std::int64_t trained_;
  int states_;
  typename Backend::Buffer copy_;
};

/// Where no update is taken back.
struct NoUndoCopy {
  template <class Device>
  NoUndoCopy(Device const& /*device*/, std::int64_t /*trained*/, int /*states*/) {}
  [[nodiscard]] static constexpr std::int64_t bytes() { return 0; }
};

}  // namespace tandem
