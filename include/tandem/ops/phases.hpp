// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Phases: a pass of an op cut where ranks join what they have.
///
/// An op still sees no communicator: it says, as types, what it computes and which numbers of it
/// are joined over which axis of the mesh, and the engine does these one after another.

#include <concepts>
#include <cstdint>
#include <span>

#include <tandem/core/mesh.hpp>

namespace tandem {

/// What a collective phase makes of the numbers of several ranks.
enum class Joined : std::uint8_t { sum };

/// @tparam Run  a member function of the op: (operands, pass); not called for a microbatch without
///              samples
template <auto Run>
struct Compute {
  template <class O, class Operands, class Pass>
  static constexpr bool fits = requires(O& op, Operands const& operands, Pass const& pass) {
    (op.*Run)(operands, pass);
  };
};

/// The ranks along an axis join doubles of theirs, and all have the result in the same place.
/// @tparam Data  a member function of the op: data(operands), in the device's memory, as many on
///               each rank; a microbatch without samples has zeros there
template <Axis A, Joined How, auto Data>
struct Collective {
  template <class O, class Operands, class Pass>
  static constexpr bool fits = requires(O& op, Operands const& operands) {
    { (op.*Data)(operands) } -> std::same_as<std::span<double>>;
  };
};

/// The ranks along an axis bring doubles together.
/// @tparam Data  a member function of the op: data(operands, pass), in the device's memory: what
///               each rank has, in their order and as many numbers of each, of which a rank has
///               written its own
template <Axis A, auto Data>
struct Gather {
  template <class O, class Operands, class Pass>
  static constexpr bool fits = requires(O& op, Operands const& operands, Pass const& pass) {
    { (op.*Data)(operands, pass) } -> std::same_as<std::span<double>>;
  };
};

/// What is done one after another.
template <class... Phase>
struct Phases {
  template <class O, class Operands, class Pass>
  static constexpr bool fit = (Phase::template fits<O, Operands, Pass> && ...);
};

}  // namespace tandem
