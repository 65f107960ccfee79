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
  expects(ranks <= cuda::most_pointers, "all_reduce_ordered: there may be 64 ranks at most");
  expects(scratch.size() >= ordered_scratch_bytes<C, T>(count, ranks),
          "all_reduce_ordered: the scratch must have ordered_scratch_bytes() bytes");
  if (count == 0) {
    return;
  }
  auto const share = [&](int rank) { return detail::share_of(rank, ranks, count, sizeof(T)); };
  auto const [begin, end] = share(comm.rank());
  std::size_t const size = detail::share_size(ranks, count, sizeof(T));
  std::array<Outgoing<T>, cuda::most_pointers> sends;
  std::array<Incoming<T>, cuda::most_pointers> receives;
  cuda::Pointers<T const> parts;
  parts.count = ranks;
  auto* place = reinterpret_cast<T*>(scratch.data());
  std::size_t peers = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == comm.rank()) {
      parts.at[peer] = in.data() + begin;
      continue;
    }
    auto const [first, last] = share(peer);
    sends[peers] = {in.subspan(first, last - first), peer};
    receives[peers] = {{place, end - begin}, peer};
    parts.at[peer] = place;
    place += size;
    ++peers;
  }
  auto const exchange = [&] {
    comm.exchange(std::span<Outgoing<T> const>{sends.data(), peers},
                  std::span<Incoming<T> const>{receives.data(), peers}, stream, label);
  };
  exchange();
  cuda::Pointers<T> sum;
  sum.count = 1;
  sum.at[0] = out.data() + begin;
  cuda::tree_sum(stream, parts, 0, static_cast<std::int64_t>(end - begin), sum, op);
  for (std::size_t i = 0; i < peers; ++i) {
    auto const [first, last] = share(sends[i].peer);
    sends[i].data = out.subspan(begin, end - begin);
    receives[i].data = out.subspan(first, last - first);
  }
  exchange();
}

}  // namespace tandem
