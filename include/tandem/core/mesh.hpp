// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Mesh: how the ranks of a program are arranged: rank ↔ coordinates, and groups by axis.
///
/// A plain constexpr value that a strategy's type is lowered to; who asks which replica a rank is
/// in, or who its peers are, asks it. What the ranks of a group do together is not told here.

#include <cstdint>
#include <limits>

#include <tandem/core/contract.hpp>

namespace tandem {

/// In place of a number of replicas, or of ranks: as many as the program is started with.
inline constexpr int by_world = -1;

/// What ranks may differ in.
enum class Axis : std::uint8_t {
  data,   ///< replicas of the model, each with its share of the batch
  model,  ///< devices of a replica, each with its parts of the model
  tensor  ///< slices of the layers of a part
};
inline constexpr int axis_count = 3;
inline constexpr Axis all_axes[axis_count] = {Axis::data, Axis::model, Axis::tensor};

/// Where a rank is. 0 along an axis that its mesh does not have.
struct Coordinates {
  int data = 0;
  int model = 0;
  int tensor = 0;

  [[nodiscard]] constexpr int& operator[](Axis axis) {
    return axis == Axis::data ? data : axis == Axis::model ? model : tensor;
  }
  [[nodiscard]] constexpr int operator[](Axis axis) const { return Coordinates{*this}[axis]; }

  friend constexpr bool operator==(Coordinates const&, Coordinates const&) = default;
};

/// The ranks that differ in one coordinate only, in its order: first, first + stride, …
struct MeshGroup {
  int first = 0;
  int stride = 1;
  int count = 1;

  [[nodiscard]] constexpr int operator[](int at) const { return first + at * stride; }

  friend constexpr bool operator==(MeshGroup const&, MeshGroup const&) = default;
};

/// Ranks 0 to size() - 1 as a grid. Meshes multiply as the parts of a Hybrid do, the first slowest:
///
///   Mesh{Axis::data, 2} * Mesh{Axis::model, 3}
///
///   rank 0 | data 0, model 0    rank 3 | data 1, model 0
///   rank 1 | data 0, model 1    rank 4 | data 1, model 1
///   rank 2 | data 0, model 2    rank 5 | data 1, model 2
///
/// Along `model` it has two groups, {0, 1, 2} and {3, 4, 5}; along `data` three, {0, 3}, {1, 4} and
/// {2, 5}. An axis that is not there has extent 1, and each rank is a group of its own along it.
class Mesh {
 public:
  /// One rank.
  constexpr Mesh() = default;

  /// @p extent ranks along one axis.
  /// @throws ContractError  less than one
  constexpr Mesh(Axis axis, int extent) {
    expects(extent >= 1, "Mesh{axis, extent}: there is no rank along the axis; give 1 or more");
    extent_[index(axis)] = extent;
  }

  /// @p inner in the place of each rank of @p outer. An axis of both has both extents multiplied.
  /// @throws ContractError  an axis would be in two places, or there are too many ranks
  friend constexpr Mesh operator*(Mesh const& outer, Mesh const& inner) {
    expects(outer.size() <= std::numeric_limits<int>::max() / inner.size(),
            "Mesh * Mesh: there are more ranks than an int can count; give smaller extents");
    Mesh product;
    for (Axis const axis : all_axes) {
      int const a = index(axis);
      expects(outer.extent_[a] == 1 || inner.extent_[a] == 1 ||
                  (outer.is_fastest(axis) && inner.is_slowest(axis)),
              "Mesh * Mesh: both have one axis and there is another between, but an axis stands in "
              "one place; give its whole extent on one side");
      product.extent_[a] = outer.extent_[a] * inner.extent_[a];
      product.stride_[a] = product.extent_[a] == 1 ? 1
                           : inner.extent_[a] > 1  ? inner.stride_[a]
                                                   : outer.stride_[a] * inner.size();
    }
    return product;
  }

  /// Ranks.
  [[nodiscard]] constexpr int size() const {
    int ranks = 1;
    for (int const extent : extent_) {
      ranks *= extent;
    }
    return ranks;
  }
  /// Ranks of a group along @p axis.
  [[nodiscard]] constexpr int extent(Axis axis) const { return extent_[index(axis)]; }
  /// Groups along @p axis.
  [[nodiscard]] constexpr int groups(Axis axis) const { return size() / extent(axis); }

  [[nodiscard]] constexpr int coordinate(int rank, Axis axis) const {
    check(rank);
    return rank / stride(axis) % extent(axis);
  }
  [[nodiscard]] constexpr Coordinates coordinates(int rank) const {
    Coordinates at;
    for (Axis const axis : all_axes) {
      at[axis] = coordinate(rank, axis);
    }
    return at;
  }
  /// @throws ContractError  no rank is there
  [[nodiscard]] constexpr int rank(Coordinates const& at) const {
    int rank = 0;
    for (Axis const axis : all_axes) {
      expects(at[axis] >= 0 && at[axis] < extent(axis),
              "mesh.rank(coordinates): no rank is there; along each axis they are from 0 to its "
              "extent - 1");
      rank += at[axis] * stride(axis);
    }
    return rank;
  }

  /// The number among groups() of the group along @p axis that @p rank is in. Groups are numbered
  /// in the order of their first ranks.
  [[nodiscard]] constexpr int group_of(int rank, Axis axis) const {
    check(rank);
    int const stride = this->stride(axis);
    return rank / (stride * extent(axis)) * stride + rank % stride;
  }
  /// The ranks of group number @p number along @p axis.
  /// @throws ContractError  there is no such group
  [[nodiscard]] constexpr MeshGroup group(int number, Axis axis) const {
    expects(number >= 0 && number < groups(axis),
            "mesh.group(number, axis): there is no such group; they are numbered from 0 to "
            "mesh.groups(axis) - 1");
    int const stride = this->stride(axis);
    return {.first = number / stride * stride * extent(axis) + number % stride,
            .stride = stride,
            .count = extent(axis)};
  }
  /// The ranks that differ from @p rank along @p axis only, itself among them.
  [[nodiscard]] constexpr MeshGroup along(Axis axis, int rank) const {
    return group(group_of(rank, axis), axis);
  }
  /// Whether @p rank is the first of its group along @p axis.
  [[nodiscard]] constexpr bool leads(int rank, Axis axis) const {
    return coordinate(rank, axis) == 0;
  }

  /// Whether each group along @p axis is among the ranks [@p first, @p first + @p count), or has
  /// none of them.
  [[nodiscard]] constexpr bool has_whole_groups(Axis axis, int first, int count) const {
    for (int rank = first; rank < first + count; ++rank) {
      MeshGroup const group = along(axis, rank);
      if (group[0] < first || group[group.count - 1] >= first + count) {
        return false;
      }
    }
    return true;
  }

  friend constexpr bool operator==(Mesh const&, Mesh const&) = default;

 private:
  static constexpr int index(Axis axis) { return static_cast<int>(axis); }

  // From a rank to the next of its group.
  [[nodiscard]] constexpr int stride(Axis axis) const { return stride_[index(axis)]; }
  [[nodiscard]] constexpr bool is_fastest(Axis axis) const { return stride(axis) == 1; }
  [[nodiscard]] constexpr bool is_slowest(Axis axis) const {
    return stride(axis) * extent(axis) == size();
  }
  constexpr void check(int rank) const {
    expects(rank >= 0 && rank < size(),
            "mesh: there is no such rank; they are numbered from 0 to mesh.size() - 1");
  }

  int extent_[axis_count] = {1, 1, 1};
  int stride_[axis_count] = {1, 1, 1};  // 1 along an axis that is not there
};

}  // namespace tandem
