// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SoftmaxCrossEntropy, losses of elements and top-k accuracy on Cuda.
///
/// Outputs, targets and results are in device memory. Outputs are channels-last, targets in the
/// order that the user knows.

#include <cstdint>
#include <type_traits>

#include <tandem/core/contract.hpp>
#include <tandem/kernels/cuda/class_targets.cuh>
#include <tandem/kernels/cuda/criterion_sum.cuh>
#include <tandem/kernels/cuda/element_loss.cuh>
#include <tandem/kernels/cuda/softmax_cross_entropy.cuh>
#include <tandem/kernels/cuda/top_k.cuh>
#include <tandem/layers/loss.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem {

namespace cuda {

/// The number of outputs that labels count.
/// @throws ContractError  @p output is an image, whose elements Cuda has in another order than Host
inline int classes_of(Shape output) {
  expects(output.rank != 3 || output[0] == 1 || output[1] * output[2] == 1,
          "labels count the outputs of a vector: end the network with Flatten or a Linear layer");
  return static_cast<int>(output.elements());
}

}  // namespace cuda

/// A loss op writes the sum of the losses of a microbatch, in double; gradient multiplies by
/// @p scale, which the engine sets to 1 / global batch, and by *CriterionPass::loss_scale, if there
/// is one. Where the mean is not over all samples, CriterionPass::row_scale, in device memory,
/// takes their place.
template <CrossEntropy L, class Kernels, class Precision>
class LossOp<L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int batch)
      : classes_{cuda::classes_of(output)},
        scratch_{batch * static_cast<std::int64_t>(sizeof(double))} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_; }

  void forward(Pass<cuda::RankDevice> const& p, T const* output, Target const* targets,
               double* loss) const {
    double* const losses = p.device.template scratch_as<double>();
    if constexpr (L::plain) {
      cuda::softmax_cross_entropy_forward(p.device.compute, output, targets, p.batch, classes_,
                                          L::smoothing, losses, loss);
    } else {
      cuda::class_targets_forward(p.device.compute, output, ClassTargetsOf<L>{targets, classes_},
                                  p.batch, classes_, losses, loss);
    }
  }
  void gradient(Pass<cuda::RankDevice> const& p, T const* output, Target const* targets,
                double scale, T* dy) const {
    if constexpr (L::plain) {
      cuda::softmax_cross_entropy_gradient(p.device.compute, output, targets, p.batch, classes_,
                                           L::smoothing, scale, dy, p.criterion.loss_scale);
    } else {
      cuda::class_targets_gradient(p.device.compute, output, ClassTargetsOf<L>{targets, classes_},
                                   p.batch, classes_, scale,
                                   WeighsTargets<L> ? p.criterion.row_scale : nullptr, dy,
                                   WeighsTargets<L> ? nullptr : p.criterion.loss_scale);
    }
  }

 private:
  int classes_;
  std::int64_t scratch_;
};

template <ElementLoss L, class Kernels, class Precision>
class LossOp<L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  LossOp(Shape output, int batch)
      : elements_{output.elements()},
        order_{output.rank == 3 ? cuda::TargetOrder{output[0], output[1] * output[2]}
                                : cuda::TargetOrder{}},
        scratch_{cuda::element_loss_scratch_bytes(batch * elements_)} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_; }

  void forward(Pass<cuda::RankDevice> const& p, T const* output, float const* targets,
               double* loss) const {
    cuda::element_loss_forward<L>(p.device.compute, output, targets, order_, p.batch * elements_,
                                  static_cast<double>(elements_), loss, p.device.scratch);
  }
  void gradient(Pass<cuda::RankDevice> const& p, T const* output, float const* targets,
                double scale, T* dy) const {
    cuda::element_loss_gradient<L>(p.device.compute, output, targets, order_, p.batch * elements_,
                                   scale / static_cast<double>(elements_), dy,
                                   p.criterion.loss_scale);
  }

 private:
  std::int64_t elements_;
  cuda::TargetOrder order_;
  std::int64_t scratch_;
};

/// The sum of the rows' losses; a criterion gives the gradient itself, by CriterionPass::row_scale.
template <class L, class Kernels, class Precision>
  requires is_of_criterion<L>
class LossOp<L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  LossOp(Shape output, int /*batch*/) : output_{output} {}

  [[nodiscard]] static constexpr std::int64_t scratch_bytes() { return 0; }

  void forward(Pass<cuda::RankDevice> const& p, T const* output, std::int32_t const* /*targets*/,
               double* loss) const {
    cuda::criterion_sum(p.device.compute, p.rows(output_), output, loss, nullptr);
  }
  void gradient(Pass<cuda::RankDevice> const& /*pass*/, T const* /*output*/,
                std::int32_t const* /*targets*/, double /*scale*/, T* /*dy*/) const {}

 private:
  Shape output_;
};

/// Rows whose largest output is the target's, as the criterion has counted them.
template <class L, class Kernels, class Precision>
  requires is_of_criterion<L>
class MetricOp<Accuracy, L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output) : output_{output} {}

  static constexpr std::int64_t scratch_bytes(int /*batch*/) { return 0; }

  void count(Pass<cuda::RankDevice> const& p, T const* output, std::int32_t const* /*targets*/,
             double* sum) const {
    cuda::criterion_sum(p.device.compute, p.rows(output_), output, nullptr, sum);
  }

 private:
  Shape output_;
};

/// TopK and Accuracy of any loss with one integer label a sample, or soft labels; a NaN never
/// counts as right.
template <class M, class L, class Kernels, class Precision>
  requires(requires { M::k; } && has_labels<L>)
class MetricOp<M, L, BasicCuda<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output) : classes_{cuda::classes_of(output)} {}

  /// For microbatches of at most @p batch samples.
  static std::int64_t scratch_bytes(int batch) {
    return batch * static_cast<std::int64_t>(sizeof(double));
  }

  /// @p sum is overwritten.
  void count(Pass<cuda::RankDevice> const& p, T const* output, typename L::Target const* targets,
             double* sum) const {
    expects(p.device.scratch_bytes >= scratch_bytes(p.batch),
            "MetricOp: the device's scratch memory is smaller than MetricOp::scratch_bytes");
    cuda::top_k_count(p.device.compute, output, labels_of<L>(targets, classes_), p.batch, classes_,
                      M::k, p.device.template scratch_as<double>(), sum);
  }

 private:
  int classes_;
};

}  // namespace tandem
