// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// all_reduce_ordered: an all-reduce between GPUs whose bits do not depend on who carries it.
///
/// The sums are those of ranks on the host: a tree fixed by rank, see comm/fixed_tree.hpp. So a
/// Reproducible strategy gives the same bits on one, two and four GPUs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <tandem/comm/concepts.hpp>
#include <tandem/comm/message.hpp>
#include <tandem/comm/operation.hpp>
#include <tandem/comm/ordered.hpp>
#include <tandem/comm/share.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/pointers.hpp>
#include <tandem/kernels/cuda/tree_sum.cuh>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem {

namespace detail {

/// Sends each other rank its share of @p in, share(rank) as [begin, end), and gives this rank's
/// share of all of them, in the order of ranks; those of others stand in @p scratch, @p apart
/// elements from one another.
template <class C, class T, class Share>
cuda::Pointers<T const> exchange_shares(C& comm, std::span<T const> in, Share const& share,
                                        T* scratch, std::size_t apart, cuda::Stream& stream,
                                        Label label) {
  int const ranks = comm.size();
  auto const [begin, end] = share(comm.rank());
  std::array<Outgoing<T>, cuda::most_pointers> sends;
  std::array<Incoming<T>, cuda::most_pointers> receives;
  cuda::Pointers<T const> parts;
  parts.count = ranks;
  std::size_t peers = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == comm.rank()) {
      parts.at[peer] = in.data() + begin;
      continue;
    }
    auto const [first, last] = share(peer);
    T* const place = scratch + peers * apart;
    sends[peers] = {in.subspan(first, last - first), peer};
    receives[peers] = {{place, end - begin}, peer};
    parts.at[peer] = place;
    ++peers;
  }
  comm.exchange(std::span<Outgoing<T> const>{sends.data(), peers},
                std::span<Incoming<T> const>{receives.data(), peers}, stream, label);
  return parts;
}

template <class C, class T>
void check_ordered(std::size_t count, int ranks, std::size_t scratch) {
  expects(ranks <= cuda::most_pointers,
          "a sum in the order of ranks: there may be 64 ranks at most");
  expects(scratch >= ordered_scratch_bytes<C, T>(count, ranks),
          "a sum in the order of ranks: the scratch must have ordered_scratch_bytes() bytes");
}

}  // namespace detail

/// out[i] = op over the ranks' in[i]. See AllReduces.
///
/// For floating-point elements; sums of integers need no order. Each rank is sent its share of all
/// others' elements, joins them, and sends the result to all.
///
/// Order:   tree(n) = op(tree(the first p), tree(the rest)), p the largest power of two below n, in
///          ComputeType; for float and double the bits of reduce_in_tree.
/// Cost:    that of a ring: 2 (n - 1) / n * bytes(in) sent and received; the shares are read once
///          more. No allocation.
/// Comm:    two exchanges with all other ranks, or one all_reduce() where that is ordered.
/// @param scratch  this rank's own, aligned to 64 bytes; used until the stream has passed the call
/// @throws ContractError  in and out differ in size, the scratch is too small, there are more than
///                        64 ranks
template <class C, class T, class Op>
  requires(Exchanges<C, T> && !std::is_integral_v<T>)
void all_reduce_ordered(C& comm, std::span<T const> in, std::span<T> out, Op op,
                        std::span<std::byte> scratch, cuda::Stream& stream, Label label = {}) {
  expects(in.size() == out.size(),
          "all_reduce_ordered: in and out must have the same number of elements");
  int const ranks = comm.size();
  std::size_t const count = in.size();
  if constexpr (sums_in_order<C>) {
    comm.all_reduce(in, out, op, stream, label);
    return;
  }
  detail::check_ordered<C, T>(count, ranks, scratch.size());
  if (count == 0) {
    return;
  }
  auto const share = [&](int rank) { return detail::share_of(rank, ranks, count, sizeof(T)); };
  auto const [begin, end] = share(comm.rank());
  auto const parts =
      detail::exchange_shares(comm, in, share, reinterpret_cast<T*>(scratch.data()),
                              detail::share_size(ranks, count, sizeof(T)), stream, label);
  cuda::Pointers<T> sum;
  sum.count = 1;
  sum.at[0] = out.data() + begin;
  cuda::tree_sum(stream, parts, 0, static_cast<std::int64_t>(end - begin), sum, op);
  std::array<Outgoing<T>, cuda::most_pointers> sends;
  std::array<Incoming<T>, cuda::most_pointers> receives;
  std::size_t peers = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != comm.rank()) {
      auto const [first, last] = share(peer);
      sends[peers] = {out.subspan(begin, end - begin), peer};
      receives[peers++] = {out.subspan(first, last - first), peer};
    }
  }
  comm.exchange(std::span<Outgoing<T> const>{sends.data(), peers},
                std::span<Incoming<T> const>{receives.data(), peers}, stream, label);
}

/// This rank's part of op over the ranks' in. See ReduceScatters.
///
/// Order:   as of all_reduce_ordered(): the same bits.
/// Cost:    that of a ring: (n - 1) / n * bytes(in) sent and received; the shares are read once
///          more. No allocation.
/// Comm:    one exchange with all other ranks, or one reduce_scatter() where that is ordered.
/// @param scratch  as of all_reduce_ordered() for all of @p in
/// @throws ContractError  in does not have size() times as many elements as out, the scratch is too
///                        small, there are more than 64 ranks
template <class C, class T, class Op>
  requires(Exchanges<C, T> && !std::is_integral_v<T>)
void reduce_scatter_ordered(C& comm, std::span<T const> in, std::span<T> out, Op op,
                            std::span<std::byte> scratch, cuda::Stream& stream, Label label = {}) {
  std::size_t const each = out.size();
  expects(in.size() == each * static_cast<std::size_t>(comm.size()),
          "reduce_scatter_ordered: in must have as many elements as the ranks' outs together");
  if constexpr (sums_in_order<C>) {
    comm.reduce_scatter(in, out, op, stream, label);
    return;
  }
  detail::check_ordered<C, T>(in.size(), comm.size(), scratch.size());
  if (in.empty()) {
    return;
  }
  auto const share = [&](int rank) {
    std::size_t const begin = static_cast<std::size_t>(rank) * each;
    return std::pair{begin, begin + each};
  };
  auto const parts = detail::exchange_shares(comm, in, share, reinterpret_cast<T*>(scratch.data()),
                                             each, stream, label);
  cuda::Pointers<T> sum;
  sum.count = 1;
  sum.at[0] = out.data();
  cuda::tree_sum(stream, parts, 0, static_cast<std::int64_t>(each), sum, op);
}

}  // namespace tandem
