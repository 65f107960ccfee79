// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowGradientAccounts: what parameters whose gradients are GradientRows queue beside the others.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/measure/account/account.hpp>
#include <tandem/measure/account/account_device.hpp>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/strategy/memory/row_gradient_size.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// Of as many rows as there may be.
class RowGradientAccounts {
 public:
  RowGradientAccounts(StepAccount& to, AccountDevice const& device,
                      AccountPrecision const& precision)
      : to_{to}, device_{device}, element_{precision.master} {
    each([&](Parameter const&, RowGradientSize const&) {
      if (device.plan.batching.leaves_of_copy(device.copies) > 1) {
        to.leave_out("RowGradient under Reproducible: the sums of its leaves");
      }
    });
  }

  /// Those of all replicas are gathered and added.
  void reduce() {
    each([&](Parameter const&, RowGradientSize const& rows) {
      if (device_.replicas > 1) {
        auto const numbers = static_cast<double>(4 * rows.most * device_.replicas);
        to_.add("gradients", "", "ncclAllGather", static_cast<double>(rows.block),
                static_cast<double>(rows.gathered));
        to_.add("gradients", "", "each_kernel:RowKeys", numbers, 2 * numbers);
        to_.add("gradients", "", "cub::DeviceRadixSort", 2 * numbers, 2 * numbers);
        to_.add("gradients", "", "cub::DeviceSelect", 2 * numbers, 2 * numbers);
        to_.add("gradients", "", "each_kernel:OpenRows", numbers, numbers);
        to_.add("gradients", "", "sum_rows_kernel", kept(rows.most * device_.replicas * rows.width),
                kept(rows.all * rows.width));
      }
    });
  }

  /// For the norm.
  void square() {
    each([&](Parameter const& own, RowGradientSize const& rows) {
      std::int64_t const chunks = (own.shape.elements() - 1) / cuda::update_chunk + 1;
      auto const squares = static_cast<double>(chunks * static_cast<std::int64_t>(sizeof(double)));
      to_.add("update", "", "memset", 0, squares);
      to_.add("update", "", "row_squares_kernel", kept(rows.all * rows.width), squares);
    });
  }

  /// f(elements) for each that is updated.
  template <class F>
  void each_update(F const& f) const {
    each([&](Parameter const&, RowGradientSize const& rows) { f(rows.all * rows.width); });
  }

 private:
  template <class F>
  void each(F const& f) const {
    for (int p = 0; p < device_.graph.parameters; ++p) {
      GraphParameter const& own = device_.graph.parameter[p];
      if (own.parameter.touched.sparse() && !own.frozen) {
        f(own.parameter, RowGradientSize{own.parameter,
                                         {.batch = device_.largest,
                                          .microbatches = device_.plan.batching.passes(),
                                          .replicas = device_.replicas},
                                         element_});
      }
    }
  }
  [[nodiscard]] double kept(std::int64_t elements) const {
    return static_cast<double>(elements * element_);
  }

  StepAccount& to_;
  AccountDevice const& device_;
  int element_;
};

}  // namespace tandem::detail

#endif
