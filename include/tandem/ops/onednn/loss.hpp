// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SoftmaxCrossEntropy, losses of elements and top-k accuracy on Host, channels-last: the portable
/// kernels on outputs in the order and precision that users know.

#include <cstdint>

#include <tandem/kernels/functors/class_targets.hpp>
#include <tandem/kernels/host/element_loss.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/ops/host/loss.hpp>
#include <tandem/ops/onednn/user_order.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace host {

/// The scratch memory of a loss: a double a sample, then outputs as users know them.
template <class Precision>
class LossMemory<OneDnn, Precision> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  LossMemory(Shape output, int batch) : order_{output}, batch_{(batch + 7) / 8 * 8} {}

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return batch_ * static_cast<std::int64_t>(sizeof(double)) +
           order_.elements(batch_) * static_cast<std::int64_t>(sizeof(P));
  }

  static double* losses(Pass<Device> const& p) { return p.device.template scratch_as<double>(); }

  P const* outputs(Pass<Device> const& p, T const* output) const {
    return order_.read(p.device, p.batch, output, memory(p));
  }
  /// May be the memory of outputs(): every element is read before it is written.
  P* gradients(Pass<Device> const& p, T* dy) const { return order_.writable(dy, memory(p)); }
  void write(Pass<Device> const& p, T* dy) const { order_.write(p.device, p.batch, memory(p), dy); }

 private:
  [[nodiscard]] P* memory(Pass<Device> const& p) const {
    return reinterpret_cast<P*>(losses(p) + batch_);
  }

  channels_last::UserOrder<T, P> order_;
  int batch_;  // rounded up, so that what follows the doubles is aligned
};

}  // namespace host

template <ElementLoss L, class Precision>
class LossOp<L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  LossOp(Shape output, int batch) : elements_{output.elements()}, memory_{output, batch} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return memory_.scratch_bytes(); }

  void forward(Pass<host::Device> const& p, T const* output, P const* targets, double* loss) const {
    double total = 0.0;
    host::element_loss_forward<L>(p.device.team, p.batch, elements_, memory_.outputs(p, output),
                                  targets, memory_.losses(p), total);
    *loss = total / static_cast<double>(elements_);
  }
  void gradient(Pass<host::Device> const& p, T const* output, P const* targets, double scale,
                T* dy) const {
    host::element_loss_gradient<L>(p.device.team, memory_.outputs(p, output), targets,
                                   static_cast<P>(scale / static_cast<double>(elements_)),
                                   memory_.gradients(p, dy), p.batch * elements_);
    memory_.write(p, dy);
  }

 private:
  std::int64_t elements_;
  host::LossMemory<OneDnn, Precision> memory_;
};

/// TopK and Accuracy of any loss with one integer label a sample, or soft labels; a NaN never
/// counts as right.
template <class M, class L, class Precision>
  requires(requires { M::k; } && has_labels<L>)
class MetricOp<M, L, BasicHost<OneDnn, Precision>> {
  using T = typename Precision::Scalar;
  using P = typename Precision::Master;

 public:
  explicit MetricOp(Shape output) : classes_{static_cast<int>(output.elements())}, order_{output} {}

  /// For microbatches of at most @p batch samples.
  [[nodiscard]] std::int64_t scratch_bytes(int batch) const {
    return order_.elements(batch) * static_cast<std::int64_t>(sizeof(P));
  }

  void count(Pass<host::Device> const& p, T const* output, typename L::Target const* targets,
             double* sum) const {
    P const* const y = order_.read(p.device, p.batch, output, p.device.template scratch_as<P>());
    *sum = host::top_k_count(p.batch, classes_, y, labels_of<L>(targets, classes_), M::k);
  }

 private:
  int classes_;
  host::channels_last::UserOrder<T, P> order_;
};

}  // namespace tandem
