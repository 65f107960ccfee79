// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program's own RowLoss and RowMetric on Cuda: they see samples in the order that users know, in
/// float or double, by way of scratch memory where these are stored otherwise.

#include <cstdint>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/row.hpp>
#include <tandem/kernels/cuda/layout.cuh>
#include <tandem/kernels/cuda/own_loss.cuh>
#include <tandem/layers/cross_entropy.hpp>
#include <tandem/layers/own_loss.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// Outputs between how they are stored and how users know them.
template <class T, class P>
class OwnOrder {
 public:
  explicit OwnOrder(Shape output)
      : channels_{output.rank == 3 ? output[0] : 1},
        pixels_{static_cast<int>(output.elements() / channels_)},
        same_{std::is_same_v<T, P> && (channels_ == 1 || pixels_ == 1)} {}

  /// Of scratch for one array of @p batch samples, a multiple of 16.
  [[nodiscard]] std::int64_t bytes(std::int64_t batch) const {
    std::int64_t const elements = same_ ? 0 : batch * channels_ * pixels_;
    return (elements * static_cast<std::int64_t>(sizeof(P)) + 15) / 16 * 16;
  }
  /// @p stored as users know it; by way of @p memory.
  P const* read(Stream const& stream, int batch, T const* stored, std::byte* memory) const {
    if constexpr (std::is_same_v<T, P>) {
      if (same_) {
        return stored;
      }
    }
    P* const y = reinterpret_cast<P*>(memory);
    from_channels_last(stream, batch, channels_, pixels_, stored, y);
    return y;
  }
  /// Where to write what write() then stores.
  P* writable(T* stored, std::byte* memory) const {
    if constexpr (std::is_same_v<T, P>) {
      if (same_) {
        return stored;
      }
    }
    return reinterpret_cast<P*>(memory);
  }
  void write(Stream const& stream, int batch, P const* written, T* stored) const {
    if (!same_) {
      to_channels_last(stream, batch, channels_, pixels_, written, stored);
    }
  }

 private:
  int channels_;
  int pixels_;
  bool same_;
};

/// Of the values of samples, before what else an own loss or metric has in scratch memory.
constexpr std::int64_t own_value_bytes(std::int64_t batch) {
  return (batch * static_cast<std::int64_t>(sizeof(double)) + 15) / 16 * 16;
}

}  // namespace cuda

template <class L, class Kernels, class Precision>
  requires RowLoss<L, typename Precision::Master>
class LossOp<L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int batch)
      : outputs_{output.elements()}, targets_{L::targets(output)}, batch_{batch}, order_{output} {}

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return cuda::own_value_bytes(batch_) + 2 * order_.bytes(batch_);
  }

  void forward(Pass<cuda::RankDevice> const& p, T const* output, Target const* targets,
               double* loss) const {
    cuda::own_value_sum<L>(p.device.compute, outputs(p, output), targets, p.batch, outputs_,
                           targets_, p.device.template scratch_as<double>(), loss);
  }
  void gradient(Pass<cuda::RankDevice> const& p, T const* output, Target const* targets,
                double scale, T* dy) const {
    std::byte* const memory =
        p.device.scratch + cuda::own_value_bytes(batch_) + order_.bytes(batch_);
    P* const written = order_.writable(dy, memory);
    cuda::own_gradient<L>(p.device.compute, outputs(p, output), targets, p.batch, outputs_,
                          targets_, scale, written, p.criterion.loss_scale);
    order_.write(p.device.compute, p.batch, written, dy);
  }

 private:
  P const* outputs(Pass<cuda::RankDevice> const& p, T const* output) const {
    return order_.read(p.device.compute, p.batch, output,
                       p.device.scratch + cuda::own_value_bytes(batch_));
  }

  std::int64_t outputs_;
  std::int64_t targets_;
  int batch_;
  cuda::OwnOrder<T, P> order_;
};

namespace detail {

/// M of the samples that count, by L's targets.
template <class M, class L>
struct CountedValue {
  template <class R, class Target>
  TANDEM_HOST_DEVICE static double value(Row<R const> output, Row<Target const> target) {
    return sample_counts<L>(target[0]) ? static_cast<double>(M::value(output, target)) : 0.0;
  }
};

}  // namespace detail

template <class M, class L, class Kernels, class Precision>
  requires RowMetric<M, L, typename Precision::Master>
class MetricOp<M, L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit MetricOp(Shape output)
      : outputs_{output.elements()}, targets_{L::targets(output)}, order_{output} {}

  /// For microbatches of at most @p batch samples.
  [[nodiscard]] std::int64_t scratch_bytes(int batch) const {
    return cuda::own_value_bytes(batch) + order_.bytes(batch);
  }

  void count(Pass<cuda::RankDevice> const& p, T const* output, typename L::Target const* targets,
             double* sum) const {
    P const* const y = order_.read(p.device.compute, p.batch, output,
                                   p.device.scratch + cuda::own_value_bytes(p.batch));
    cuda::own_value_sum<detail::CountedValue<M, L>>(p.device.compute, y, targets, p.batch, outputs_,
                                                    targets_,
                                                    p.device.template scratch_as<double>(), sum);
  }

 private:
  std::int64_t outputs_;
  std::int64_t targets_;
  cuda::OwnOrder<T, P> order_;
};

}  // namespace tandem
