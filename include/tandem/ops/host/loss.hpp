// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SoftmaxCrossEntropy, losses of elements and top-k accuracy on Host, portable kernels.

#include <cstdint>
#include <type_traits>

#include <tandem/kernels/functors/class_targets.hpp>
#include <tandem/kernels/host/class_targets.hpp>
#include <tandem/kernels/host/element_loss.hpp>
#include <tandem/kernels/host/softmax_cross_entropy.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// The scratch memory of a loss: a double a sample. Outputs are stored as users know them.
template <class Kernels, class Precision>
class LossMemory {
  using T = typename Precision::Scalar;

 public:
  LossMemory(Shape /*output*/, int batch)
      : bytes_{batch * static_cast<std::int64_t>(sizeof(double))} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return bytes_; }

  static double* losses(Pass<Device> const& p) { return p.device.template scratch_as<double>(); }
  static T const* outputs(Pass<Device> const& /*pass*/, T const* output) { return output; }
  static T* gradients(Pass<Device> const& /*pass*/, T* dy) { return dy; }
  static void write(Pass<Device> const& /*pass*/, T* /*dy*/) {}

 private:
  std::int64_t bytes_;
};

}  // namespace host

/// A loss op sums the losses of a microbatch in sample order, in double; gradient multiplies by
/// @p scale, which the engine sets to 1 / global batch. Where the mean is not over all samples,
/// CriterionPass::row_scale takes the place of @p scale.
template <CrossEntropy L, class Kernels, class Precision>
class LossOp<L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int batch)
      : classes_{static_cast<int>(output.elements())}, memory_{output, batch} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return memory_.scratch_bytes(); }

  void forward(Pass<host::Device> const& p, T const* output, Target const* targets,
               double* loss) const {
    auto const* const y = memory_.outputs(p, output);
    if constexpr (L::plain) {
      ClassificationSums sums{};
      host::softmax_cross_entropy_forward(p.device.team, p.batch, classes_, y, targets,
                                          L::smoothing, 1, memory_.losses(p), sums);
      *loss = sums.loss;
    } else {
      *loss = 0.0;
      host::class_targets_forward(p.device.team, p.batch, classes_, y,
                                  ClassTargetsOf<L>{targets, classes_}, memory_.losses(p), *loss);
    }
  }
  void gradient(Pass<host::Device> const& p, T const* output, Target const* targets, double scale,
                T* dy) const {
    auto const* const y = memory_.outputs(p, output);
    auto* const gradients = memory_.gradients(p, dy);
    if constexpr (L::plain) {
      host::softmax_cross_entropy_gradient(p.device.team, p.batch, classes_, y, targets,
                                           L::smoothing, scale, gradients);
    } else {
      host::class_targets_gradient(p.device.team, p.batch, classes_, y,
                                   ClassTargetsOf<L>{targets, classes_},
                                   WeighsTargets<L> ? *p.criterion.row_scale : scale, gradients);
    }
    memory_.write(p, dy);
  }

 private:
  int classes_;
  host::LossMemory<Kernels, Precision> memory_;
};

template <ElementLoss L, class Precision>
class LossOp<L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  LossOp(Shape output, int batch) : elements_{output.elements()}, batch_{batch} {}

  // Losses in double, then the targets in T.
  [[nodiscard]] std::int64_t scratch_bytes() const {
    return batch_ * (static_cast<std::int64_t>(sizeof(double)) +
                     elements_ * static_cast<std::int64_t>(sizeof(T)));
  }

  void forward(Pass<host::Device> const& p, T const* output, float const* targets,
               double* loss) const {
    double total = 0.0;
    host::element_loss_forward<L>(p.device.team, p.batch, elements_, output, converted(p, targets),
                                  p.device.template scratch_as<double>(), total);
    *loss = total / static_cast<double>(elements_);
  }
  void gradient(Pass<host::Device> const& p, T const* output, float const* targets, double scale,
                T* dy) const {
    host::element_loss_gradient<L>(p.device.team, output, converted(p, targets),
                                   static_cast<T>(scale / static_cast<double>(elements_)), dy,
                                   p.batch * elements_);
  }

 private:
  T const* converted(Pass<host::Device> const& p, float const* targets) const {
    if constexpr (std::is_same_v<T, float>) {
      return targets;
    } else {
      T* const copy = reinterpret_cast<T*>(p.device.template scratch_as<double>() + batch_);
      for (std::int64_t i = 0; i < p.batch * elements_; ++i) {
        copy[i] = static_cast<T>(targets[i]);
      }
      return copy;
    }
  }

  std::int64_t elements_;
  std::int64_t batch_;
};

/// The sum of the rows' losses; a criterion gives the gradient itself, by CriterionPass::row_scale.
template <class L, class Kernels, class Precision>
  requires is_of_criterion<L>
class LossOp<L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  LossOp(Shape output, int /*batch*/) : output_{output} {}

  [[nodiscard]] static constexpr std::int64_t scratch_bytes() { return 0; }

  void forward(Pass<host::Device> const& p, T const* output, std::int32_t const* /*targets*/,
               double* loss) const {
    *loss = 0.0;
    for (std::int64_t row = 0, rows = p.rows(output_); row < rows; ++row) {
      *loss += static_cast<double>(output[3 * row]) + static_cast<double>(output[3 * row + 1]);
    }
  }
  void gradient(Pass<host::Device> const& /*pass*/, T const* /*output*/,
                std::int32_t const* /*targets*/, double /*scale*/, T* /*dy*/) const {}

 private:
  Shape output_;
};

/// Rows whose largest output is the target's, as the criterion has counted them.
template <class L, class Kernels, class Precision>
  requires is_of_criterion<L>
class MetricOp<Accuracy, L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output) : output_{output} {}

  void count(Pass<host::Device> const& p, T const* output, std::int32_t const* /*targets*/,
             double* sum) const {
    *sum = 0.0;
    for (std::int64_t row = 0, rows = p.rows(output_); row < rows; ++row) {
      *sum += static_cast<double>(output[3 * row + 2]);
    }
  }

 private:
  Shape output_;
};

/// TopK and Accuracy of any loss with one integer label a sample, or soft labels; a NaN never
/// counts as right.
template <class M, class L, class Kernels, class Precision>
  requires(requires { M::k; } && has_labels<L>)
class MetricOp<M, L, BasicHost<Kernels, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output) : classes_{static_cast<int>(output.elements())} {}

  void count(Pass<host::Device> const& p, T const* output, typename L::Target const* targets,
             double* sum) const {
    *sum = host::top_k_count(p.batch, classes_, output, labels_of<L>(targets, classes_), M::k);
  }

 private:
  int classes_;
};

}  // namespace tandem
