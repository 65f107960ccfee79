// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RowSums: how the GradientRows of a bucket are added over leaves and over replicas.

#include <cstddef>
#include <vector>

#include <tandem/comm/message.hpp>
#include <tandem/engine/links/bucket_sums.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// Each replica gathers the rows of all, whole blocks of the most that there may be, and adds them
/// itself, in the order of a dense gradient: so all have the same sum.
///
/// Comm: an all-gather of replicas x most x (width + 1) elements for each parameter.
template <class Program, class Backend>
class RowSums {
 public:
  using Device = typename Backend::Device;
  static constexpr auto const& layout = Program::layout;
  static constexpr bool gathers = Program::sums_gradients;

  /// @param replicas  whose gradients are added, or one
  RowSums(Device& device, int replicas) : replicas_{replicas} {
    for (int r = 0; gathers && r < layout.row_gradients; ++r) {
      marks_.push_back(device.make_mark());
    }
  }

  /// A binary counter, as GradientReduction has of buckets.
  template <class Rows>
  static void join_tree(Device& device, Rows const& rows, int bucket, int index, int leaves) {
    each(bucket, [&](int r) {
      int level = 0;
      for (int carry = index; (carry & 1) != 0; carry >>= 1, ++level) {
        Verbs<Backend>::add_rows(device, rows.buffer(r, 1 + level), rows.buffer(r));
      }
      if (index != leaves - 1) {
        Verbs<Backend>::copy_rows(device, rows.buffer(r), rows.buffer(r, 1 + level));
      }
    });
  }

  /// There are none.
  template <class Rows>
  static void clear(Device& device, Rows const& rows, int bucket) {
    each(bucket, [&](int r) { Verbs<Backend>::clear_rows(device, rows.buffer(r)); });
  }

  template <class Communicator, class Rows>
  void begin(Device& device, Communicator& group, Rows const& rows, int bucket,
             Tracer<Device>& tracer) {
    if constexpr (gathers) {
      each(bucket, [&](int r) {
        Label const label{"rows", bucket};
        detail::queue_collective(device, tracer, label, mark(r), [&] {
          group.all_gather(rows.sent(r), rows.received(r), device.communication, label);
        });
      });
    }
  }

  /// What is computed from now on reads the sum.
  template <class Rows>
  void await(Device& device, Rows const& rows, int bucket) {
    if constexpr (gathers) {
      each(bucket, [&](int r) {
        device.await_on(device.communication, mark(r));
        Verbs<Backend>::sum_rows(device, rows.replicas(r).data(), replicas_, rows.sum(r));
      });
    }
  }

 private:
  using Mark = typename Device::Mark;
  [[nodiscard]] Mark& mark(int r) { return marks_[static_cast<std::size_t>(r)]; }

  template <class F>
  static void each(int bucket, F const& f) {
    for (int r = 0; r < layout.row_gradients; ++r) {
      if (layout.row_bucket[r] == bucket) {
        f(r);
      }
    }
  }

  int replicas_;
  std::vector<Mark> marks_;  // of each parameter
};

/// RowSums where no parameter has GradientRows.
template <class Backend>
struct NoRowSums {
  using Device = typename Backend::Device;

  NoRowSums(Device& /*device*/, int /*replicas*/) {}

  static void join_tree(Device& /*device*/, auto const& /*rows*/, int /*bucket*/, int /*index*/,
                        int /*leaves*/) {}
  static void clear(Device& /*device*/, auto const& /*rows*/, int /*bucket*/) {}
  static void begin(Device& /*device*/, auto& /*group*/, auto const& /*rows*/, int /*bucket*/,
                    Tracer<Device>& /*tracer*/) {}
  static void await(Device& /*device*/, auto const& /*rows*/, int /*bucket*/) {}
};

}  // namespace tandem
