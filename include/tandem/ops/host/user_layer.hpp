// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A user's own layer, loss and metric on Host: static functions of the type itself become ops.
///
/// A layer gives `forward(auto const& call)`, `input_gradient(auto const& call)` and, with
/// parameters, `weight_gradient(auto const& call)`, where call is a LayerCall<float> or <double>.
/// They run on the device's own thread, and split what they like among its others.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>

#include <tandem/core/row.hpp>
#include <tandem/layers/cross_entropy.hpp>
#include <tandem/layers/loss.hpp>
#include <tandem/layers/own_loss.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/runtime/host/host.hpp>

namespace tandem {

namespace detail {

/// body(begin, end) on ranges that cover [0, n), on the threads of @p team. What one of them throws
/// is thrown when all have ended.
template <class Body>
void split(host::Team* team, std::size_t n, Body const& body) {
  if (team == nullptr) {
    body(std::size_t{0}, n);
    return;
  }
  std::exception_ptr error;
  std::atomic<bool> failed{false};
  team->parallel_for(static_cast<std::int64_t>(n), [&](std::int64_t begin, std::int64_t end) {
    try {
      body(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    } catch (...) {
      if (!failed.exchange(true)) {
        error = std::current_exception();
      }
    }
  });
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace detail

/// What a user's layer sees of one pass over one microbatch of `batch` samples.
///
/// Of a sequence `in` and `out` have as many rows as this step's samples.
///
/// forward writes y; input_gradient writes dx; weight_gradient *adds* to gradient(i). x and y are
/// there in all three.
template <class T>
struct LayerCall {
  int batch = 0;
  Shape in{};
  Shape out{};
  bool training = true;
  std::span<T const> x{};   ///< (batch, in)
  std::span<T> y{};         ///< (batch, out)
  std::span<T const> dy{};  ///< (batch, out)
  std::span<T> dx{};        ///< (batch, in)
  T* const* parameter_memory = nullptr;
  T* const* gradient_memory = nullptr;
  Parameters const* list = nullptr;
  host::Team* team = nullptr;  ///< the device's threads; null: the caller's alone

  [[nodiscard]] std::span<T const> parameter(int i) const {
    return {parameter_memory[i], elements(i)};
  }
  [[nodiscard]] std::span<T> gradient(int i) const { return {gradient_memory[i], elements(i)}; }

  /// f(i) for each i in [0, n), on all of the device's threads.
  ///
  /// @pre f writes only what belongs to its i, so that no result depends on the number of threads,
  ///      and calls neither this nor sum()
  template <class F>
  void for_each(std::size_t n, F const& f) const {
    detail::split(team, n, [&f](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        f(i);
      }
    });
  }
  /// f(s) for each sample s, likewise.
  template <class F>
  void for_each_sample(F const& f) const {
    for_each(static_cast<std::size_t>(batch), f);
  }
  /// term(0) + … + term(n - 1), in double, on all of the device's threads: for the gradient of a
  /// weight that many elements share.
  ///
  /// Order: at most 64 parts, cut by n alone, each in index order; then the parts in theirs.
  template <class F>
  [[nodiscard]] double sum(std::size_t n, F const& term) const {
    constexpr std::size_t most = 64;
    double part[most] = {};
    std::size_t const each = std::max<std::size_t>(1024, (n + most - 1) / most);
    std::size_t const parts = (n + each - 1) / each;
    for_each(parts, [&](std::size_t p) {
      double own = 0.0;
      for (std::size_t i = p * each, end = std::min(n, i + each); i < end; ++i) {
        own += static_cast<double>(term(i));
      }
      part[p] = own;
    });
    double total = 0.0;
    for (std::size_t p = 0; p < parts; ++p) {
      total += part[p];
    }
    return total;
  }

 private:
  [[nodiscard]] std::size_t elements(int i) const {
    return static_cast<std::size_t>(list->item[i].shape.elements());
  }
};

namespace detail {

// The shape of a sample in a step of @p time rows.
constexpr Shape at_time(Shape shape, int time) {
  if (shape.timed) {
    shape.extent[0] = time;
  }
  return shape;
}

}  // namespace detail

/// A layer that brings its own passes for Host.
template <class L, class T>
concept HostLayer = Layer<L> && requires(LayerCall<T> const& call) {
  L::forward(call);
  L::input_gradient(call);
};

/// One that has weights to give a gradient of.
template <class L, class T>
concept HostLayerWithWeights = HostLayer<L, T> && requires(LayerCall<T> const& call) {
  L::weight_gradient(call);
};

template <class L, class Precision>
  requires HostLayer<L, typename Precision::Scalar>
class Op<L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit Op(OpSetup const& setup)
      : in_{setup.node.in}, out_{setup.node.out}, list_{parameters_of<L>(setup.node.in)} {}

  [[nodiscard]] OpNeeds needs() const { return {.input = true, .output = true}; }

  void forward(Operands<T> const& o, Pass<host::Device> const& p) const { L::forward(call(o, p)); }
  void input_gradient(Operands<T> const& o, Pass<host::Device> const& p) const {
    L::input_gradient(call(o, p));
  }
  void weight_gradient(Operands<T> const& o,
                       Pass<host::Device> const& p) const requires HostLayerWithWeights<L, T> {
    LayerCall<T> const c = call(o, p);
    if (!p.accumulate) {
      for (int i = 0; i < list_.count; ++i) {
        std::ranges::fill(c.gradient(i), T{0});
      }
    }
    L::weight_gradient(c);
  }

 private:
  [[nodiscard]] LayerCall<T> call(Operands<T> const& o, Pass<host::Device> const& p) const {
    auto const in = static_cast<std::size_t>(p.elements(in_));
    auto const out = static_cast<std::size_t>(p.elements(out_));
    T* const dx = o.dx != nullptr ? o.dx[0] : nullptr;
    return {.batch = p.batch,
            .in = detail::at_time(in_, p.time),
            .out = detail::at_time(out_, p.time),
            .training = p.training,
            .x = {o.x[0], in},
            .y = {o.y, out},
            .dy = {o.dy, o.dy != nullptr ? out : 0},
            .dx = {dx, dx != nullptr ? in : 0},
            .parameter_memory = o.parameter,
            .gradient_memory = o.gradient,
            .list = &list_,
            .team = &p.device.team};
  }

  Shape in_;
  Shape out_;
  Parameters list_;
};

/// A loss that brings `double value(output, target)` and `void gradient(output, target, dy)` of one
/// sample, spans of T and Target, or Rows (see RowLoss); dy is to be written, not scaled by the
/// batch.
template <class L, class T>
concept HostLoss = (Loss<L> && detail::ValueOfSpans<L, T, typename L::Target> &&
                    detail::GradientOfSpans<L, T, typename L::Target>) ||
                   RowLoss<L, T>;

namespace detail {

/// The samples of a microbatch for a loss's or metric's functions of one.
template <class L, class T, class Target>
struct OwnSamples {
  std::size_t outputs;  ///< of a sample
  std::size_t targets;

  /// @tparam Of  the loss whose targets they are, which may say that a sample does not count
  template <class Of = L>
  [[nodiscard]] double sum(int batch, T const* output, Target const* target) const {
    double sum = 0.0;
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch); ++s) {
      T const* const y = output + s * outputs;
      Target const* const t = target + s * targets;
      if (targets > 0 && !sample_counts<Of>(*t)) {
        continue;
      }
      if constexpr (ValueOfSpans<L, T, Target>) {
        sum += L::value(std::span{y, outputs}, std::span{t, targets});
      } else {
        sum += L::value(Row<T const>{y, outputs}, Row<Target const>{t, targets});
      }
    }
    return sum;
  }

  void gradient(int batch, T const* output, Target const* target, double scale, T* dy) const {
    for (std::size_t s = 0; s < static_cast<std::size_t>(batch); ++s) {
      T const* const y = output + s * outputs;
      Target const* const t = target + s * targets;
      std::span<T> const sample{dy + s * outputs, outputs};
      if constexpr (GradientOfSpans<L, T, Target>) {
        L::gradient(std::span{y, outputs}, std::span{t, targets}, sample);
      } else {
        L::gradient(Row<T const>{y, outputs}, Row<Target const>{t, targets},
                    Row<T>{sample.data(), outputs});
      }
      for (T& element : sample) {
        element *= static_cast<T>(scale);
      }
    }
  }
};

}  // namespace detail

template <class L, class Precision>
  requires HostLoss<L, typename Precision::Scalar>
class LossOp<L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;
  using Target = typename L::Target;

 public:
  LossOp(Shape output, int /*batch*/)
      : samples_{static_cast<std::size_t>(output.elements()),
                 static_cast<std::size_t>(L::targets(output))} {}

  [[nodiscard]] std::int64_t scratch_bytes() const { return 0; }

  void forward(Pass<host::Device> const& p, T const* output, Target const* target,
               double* loss) const {
    *loss = samples_.sum(p.batch, output, target);
  }
  void gradient(Pass<host::Device> const& p, T const* output, Target const* target, double scale,
                T* dy) const {
    samples_.gradient(p.batch, output, target, scale, dy);
  }

 private:
  detail::OwnSamples<L, T, Target> samples_;
};

/// A metric that brings `double value(output, target)` of one sample, of spans or of Rows.
template <class M, class L, class T>
concept HostMetric =
    (Metric<M> && detail::ValueOfSpans<M, T, typename L::Target>) || RowMetric<M, L, T>;

template <class M, class L, class Precision>
  requires HostMetric<M, L, typename Precision::Scalar>
class MetricOp<M, L, BasicHost<Portable, Precision>> {
  using T = typename Precision::Scalar;

 public:
  explicit MetricOp(Shape output)
      : samples_{static_cast<std::size_t>(output.elements()),
                 static_cast<std::size_t>(L::targets(output))} {}

  void count(Pass<host::Device> const& p, T const* output, typename L::Target const* target,
             double* sum) const {
    *sum = samples_.template sum<L>(p.batch, output, target);
  }

 private:
  detail::OwnSamples<M, T, typename L::Target> samples_;
};

/// No metric: nothing is counted.
struct NoMetric {
  static constexpr std::string_view name = "";
  template <class T, class Target>
  static double value(std::span<T const>, std::span<Target const>) {
    return 0.0;
  }
};

}  // namespace tandem
