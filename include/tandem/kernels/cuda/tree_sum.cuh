// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// tree_sum: several ranks' arrays on one device joined element by element, in the order of
/// reduce_in_tree (comm/fixed_tree.hpp), so that virtual ranks give the bits of ranks on the host.

#include <cstdint>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/pointers.hpp>
#include <tandem/kernels/cuda/transform.cuh>

namespace tandem::cuda {

namespace detail {

/// @tparam Most  a power of two, in.count or more
template <int Most, class T, class Reduction>
struct TreeBody {
  Pointers<T const> in;
  Pointers<T> out;
  std::int64_t begin;
  Reduction reduction;

  /// Joins the arrays from First on, Size of them or as many as there are.
  /// @pre First < in.count
  template <int N, int First, int Size>
  TANDEM_HOST_DEVICE Pack<ComputeType<T>, N> joined(std::int64_t i) const {
    if constexpr (Size == 1) {
      return loaded(load_pack<N>(in.at[First] + begin + i));
    } else {
      Pack<ComputeType<T>, N> left = joined<N, First, Size / 2>(i);
      if (First + Size / 2 < in.count) {
        Pack<ComputeType<T>, N> const right = joined<N, First + Size / 2, Size / 2>(i);
        for (int j = 0; j < N; ++j) {
          left.value[j] = reduction(left.value[j], right.value[j]);
        }
      }
      return left;
    }
  }

  template <int N>
  TANDEM_HOST_DEVICE Pack<T, N> read(std::int64_t i) const {
    return stored<T>(joined<N, 0, Most>(i));
  }
  template <int N>
  TANDEM_HOST_DEVICE void write(std::int64_t i, Pack<T, N> const& result) const {
    for (int r = 0; r < out.count; ++r) {
      store_pack(out.at[r] + begin + i, result);
    }
  }
};

template <int Most, class T, class Reduction>
void tree_sum(Stream const& stream, Pointers<T const> const& in, std::int64_t begin,
              std::int64_t end, Pointers<T> const& out, Reduction const& reduction) {
  TreeBody<Most, T, Reduction> const body{in, out, begin, reduction};
  if (in.aligned(begin) && out.aligned(begin)) {
    map<full_pack<T>>(stream, end - begin, body);
  } else {
    map<1>(stream, end - begin, body);
  }
}

}  // namespace detail

/// out[r][i] = reduction over in[0][i], in[1][i], … for every r and every i in [begin, end).
///
/// Order: tree(n) = op(tree(the first p), tree(the rest)), p the largest power of two below n, in
///        ComputeType; the result is rounded once. For float and double: reduce_in_tree's bits.
/// Cost:  reads in.count and writes out.count elements for each i; bound by memory.
/// @param reduction  a trivially copyable functor of two ComputeType<T>, TANDEM_HOST_DEVICE
/// @pre   1 <= in.count; an output is one of the inputs or overlaps none
template <class T, class Reduction>
void tree_sum(Stream const& stream, Pointers<T const> const& in, std::int64_t begin,
              std::int64_t end, Pointers<T> const& out, Reduction const& reduction) {
  expects(in.count >= 1, "cuda::tree_sum: give at least one array");
  if (end <= begin) {
    return;
  }
  if (in.count <= 2) {
    detail::tree_sum<2>(stream, in, begin, end, out, reduction);
  } else if (in.count <= 8) {
    detail::tree_sum<8>(stream, in, begin, end, out, reduction);
  } else {
    detail::tree_sum<most_pointers>(stream, in, begin, end, out, reduction);
  }
}

}  // namespace tandem::cuda
