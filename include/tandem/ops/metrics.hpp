// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MetricOpsOf: the ops of a trainer's metric, or of its several metrics, as one.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include <tandem/core/shape.hpp>
#include <tandem/layers/metrics.hpp>
#include <tandem/ops/op.hpp>

namespace tandem {

/// Each metric's op in turn, on whatever backend it is of.
template <class List, class L, class Backend>
class MetricOps;
template <class... Ms, class L, class Backend>
class MetricOps<Metrics<Ms...>, L, Backend> {
 public:
  explicit MetricOps(Shape output) : ops_{MetricOp<Ms, L, Backend>{output}...} {}

  /// They take turns with the same scratch memory.
  [[nodiscard]] std::int64_t scratch_bytes(int batch) const {
    std::int64_t most = 0;
    auto const ask = [&](auto const& op) {
      if constexpr (requires { op.scratch_bytes(batch); }) {
        most = std::max<std::int64_t>(most, op.scratch_bytes(batch));
      }
    };
    std::apply([&](auto const&... op) { (ask(op), ...); }, ops_);
    return most;
  }

  /// @param sums  one for each metric
  template <class P, class T, class Target>
  void count(P const& pass, T const* output, Target const* targets, double* sums) {
    std::apply([&](auto&... op) { (op.count(pass, output, targets, sums++), ...); }, ops_);
  }

 private:
  std::tuple<MetricOp<Ms, L, Backend>...> ops_;
};

namespace detail {

template <class M, class L, class Backend>
struct MetricOpsType {
  using type = MetricOp<M, L, Backend>;
};
template <class M, class L, class Backend>
  requires requires { typename M::refused; }
struct MetricOpsType<M, L, Backend> {
  using type = NoOp;
};
template <Metric... Ms, class L, class Backend>
  requires requires { Metrics<Ms...>::count; }
struct MetricOpsType<Metrics<Ms...>, L, Backend> {
  using type = MetricOps<Metrics<Ms...>, L, Backend>;
};

}  // namespace detail

template <class M, class L, class Backend>
using MetricOpsOf = typename detail::MetricOpsType<M, L, Backend>::type;

/// Sums that a microbatch has for its metrics: one at least, which a metric of no name writes, too.
template <class M>
inline constexpr int metric_sums = std::max(1, MetricNames<M>::count);

}  // namespace tandem
