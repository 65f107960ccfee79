// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Losses and metrics: types beside the network, not layers of it.
///
/// A loss says what a target is and how many of them a sample has; its op gives the loss and the
/// gradient of the network's output. The gradient is divided by the global batch once; everything
/// after that is a sum. A metric counts something of the outputs; the engine sums it over samples.
///
/// A program's own is such a type, too, on every backend:
///
///   struct LogCosh : MeanOverElements {
///     static constexpr std::string_view name = "LogCosh";
///     template <class R>
///     TANDEM_HOST_DEVICE static R loss(R y, R t) { return std::log(std::cosh(y - t)); }
///     template <class R>
///     TANDEM_HOST_DEVICE static R gradient(R y, R t) { return std::tanh(y - t); }
///   };

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ratio>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/row.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/layers/cross_entropy.hpp>

namespace tandem {

/// What these losses share. Shapes: output (B, …); as many float targets a sample as the output has
/// elements, as users order them.
struct MeanOverElements {
  using Target = float;
  static constexpr int targets(Shape out) { return static_cast<int>(out.elements()); }
};

/// `loss(y, t)`, which is summed in double, and `gradient(y, t)`, its derivative by y, in the
/// precision of the kernel: static, and TANDEM_HOST_DEVICE for Cuda.
template <class L>
concept ElementLoss = std::derived_from<L, MeanOverElements> && requires(float y, double z) {
  { L::loss(z, z) } -> std::same_as<double>;
  { L::gradient(y, y) } -> std::same_as<float>;
  { L::gradient(z, z) } -> std::same_as<double>;
};

/// (y - t)²
struct MeanSquaredError : MeanOverElements {
  static constexpr std::string_view name = "MeanSquaredError";
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R loss(R y, R t) {
    return (y - t) * (y - t);
  }
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R gradient(R y, R t) {
    return R{2} * (y - t);
  }
};

/// |y - t|, whose derivative at 0 is taken to be 0.
struct MeanAbsoluteError : MeanOverElements {
  static constexpr std::string_view name = "MeanAbsoluteError";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    return std::fabs(y - t);
  }
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R gradient(R y, R t) {
    R const off = y - t;
    return off > R{0} ? R{1} : off < R{0} ? R{-1} : off * R{0};  // NaN stays
  }
};

/// (y - t)² / 2 where |y - t| <= delta, and delta (|y - t| - delta / 2) beyond.
/// @tparam Delta  a std::ratio above 0: Huber<std::ratio<1, 2>>
template <class Delta = std::ratio<1>>
struct Huber : MeanOverElements {
  static_assert(Delta::num > 0, "Huber<Delta>: give a std::ratio above 0");
  static constexpr std::string_view name = "Huber";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    constexpr R bound = static_cast<R>(Delta::num) / static_cast<R>(Delta::den);
    R const off = std::fabs(y - t);
    return off <= bound ? R{0.5} * off * off : bound * (off - R{0.5} * bound);
  }
  template <class R>
  TANDEM_HOST_DEVICE static constexpr R gradient(R y, R t) {
    constexpr R bound = static_cast<R>(Delta::num) / static_cast<R>(Delta::den);
    R const off = y - t;
    return off > bound ? bound : off < -bound ? -bound : off;
  }
};

/// -t log s - (1 - t) log(1 - s), s = 1 / (1 + exp(-y)): of outputs before the sigmoid, which it is
/// exact for however large they are, and targets from 0 to 1.
struct BinaryCrossEntropy : MeanOverElements {
  static constexpr std::string_view name = "BinaryCrossEntropy";
  template <class R>
  TANDEM_HOST_DEVICE static R loss(R y, R t) {
    return (y > R{0} ? y * (R{1} - t) : -y * t) + std::log1p(std::exp(-std::fabs(y)));
  }
  template <class R>
  TANDEM_HOST_DEVICE static R gradient(R y, R t) {
    R const small = std::exp(-std::fabs(y));
    return (y >= R{0} ? R{1} : small) / (R{1} + small) - t;
  }
};

/// The metric of BinaryCrossEntropy: share of the outputs that are above 0 where the target is
/// above 1/2, and are not where it is not.
struct BinaryAccuracy {
  static constexpr std::string_view name = "accuracy";
  template <class R>
  TANDEM_HOST_DEVICE static double value(Row<R const> y, Row<float const> t) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      right += (y[i] > R{0}) == (t[i] > 0.5F) ? 1 : 0;
    }
    return static_cast<double>(right) / static_cast<double>(y.size());
  }
};

/// A loss: `Target`, the type of one target; `targets(Shape output)`, how many a sample.
template <class L>
concept Loss = requires(Shape out) {
  typename L::Target;
  { L::name } -> std::convertible_to<std::string_view>;
  { L::targets(out) } -> std::same_as<int>;
};

/// A metric: `name`, and whether it fits a loss is decided where its op is found.
template <class M>
concept Metric = requires {
  { M::name } -> std::convertible_to<std::string_view>;
};

template <class... Ms>
struct Metrics;  // layers/metrics.hpp

namespace detail {

/// Outputs that a metric takes to be right, the largest number where it is several metrics; 0: it
/// counts otherwise.
template <class M>
inline constexpr int k_of = [] {
  if constexpr (requires { M::k; }) {
    return M::k;
  } else {
    return 0;
  }
}();
template <class... Ms>
inline constexpr int k_of<Metrics<Ms...>> = std::max({0, k_of<Ms>...});

/// Whether a metric looks the label up.
template <class M>
inline constexpr bool looks_up = k_of<M> > 0;

/// The characters of "top-5 accuracy".
template <int K>
struct TopKName {
  char text[32] = {};
  int size = 0;

  constexpr TopKName() {
    put("top-");
    int power = 1;
    while (K / power >= 10) {
      power *= 10;
    }
    for (; power > 0; power /= 10) {
      text[size++] = static_cast<char>('0' + K / power % 10);
    }
    put(" accuracy");
  }

 private:
  constexpr void put(std::string_view part) {
    for (char const c : part) {
      text[size++] = c;
    }
  }
};
template <int K>
inline constexpr TopKName<K> top_k_name{};

}  // namespace detail

/// Whether targets are indices of outputs, which the trainer then checks: a loss that sets
/// `static constexpr bool labels = true`, or a metric that looks the label up, as TopK does.
template <class L, class M>
inline constexpr bool targets_are_labels = std::integral<typename L::Target> &&
                                           (requires { L::labels; } || detail::looks_up<M>);

/// The shape of a sample's targets: as many as the loss says, a row of time each where it has
/// `static constexpr bool timed = true`.
template <Loss L>
constexpr Shape targets_shape(Shape output) {
  if constexpr (requires { requires L::timed; }) {
    Shape shape = output.timed ? tokens_shape(output[0]) : vector_shape(1);
    shape.clock = output.clock;
    return shape;
  } else {
    return vector_shape(L::targets(output));
  }
}

/// The loss of a network whose last layer gives a loss a row, as Vocabulary does: their sum,
/// divided by the targets of the global batch that are not -1, however they lie on samples and
/// devices.
///
/// Shapes: one std::int32_t target a row of time, -1 for none; the criterion's output (B, T, 3): a
///         row's loss, what rounding took of it, and 1 where the largest output was the target's.
struct PerToken {
  using Target = std::int32_t;
  static constexpr bool timed = true;
  static constexpr std::string_view name = "PerToken";
  static constexpr int targets(Shape out) { return out.timed ? out[0] : 1; }
  /// What the loss of samples [first, first + size) is a mean of.
  static double weight(TargetRows rows, int first, int size) {
    std::int64_t count = 0;
    for (std::int64_t i = std::int64_t{first} * rows.time, end = i + std::int64_t{size} * rows.time;
         i < end; ++i) {
      count += rows.target[i] >= 0 ? 1 : 0;
    }
    return static_cast<double>(count);
  }
};

/// The same sum, divided by the samples of the global batch: a loss a sentence, as GNMT has it.
struct PerSample : PerToken {
  static constexpr std::string_view name = "PerSample";
  static double weight(TargetRows /*rows*/, int /*first*/, int size) {
    return static_cast<double>(size);
  }
};

/// Whether the criterion at the end of a network makes this loss.
template <class L>
inline constexpr bool is_of_criterion = std::derived_from<L, PerToken>;

/// Whether a sample has one label, or shares of all: what an accuracy may count.
template <class L>
inline constexpr bool has_labels =
    !is_of_criterion<L> &&
    (std::same_as<typename L::Target, std::int32_t> || requires { L::soft_labels; });

/// Whether a sample's target is one of as many classes as there are outputs.
template <class L>
inline constexpr bool is_classifier = has_labels<L> &&
                                      (
                                          requires { L::labels; } || requires { L::soft_labels; });

/// Share of samples whose label is among the K largest outputs; the lowest index wins a tie.
template <int K>
struct TopK {
  static_assert(K >= 1, "TopK<K>: give a positive number");
  static constexpr std::string_view name{detail::top_k_name<K>.text,
                                         static_cast<std::size_t>(detail::top_k_name<K>.size)};
  static constexpr int k = K;
};

/// Share of samples whose largest output is at the label.
struct Accuracy : TopK<1> {
  static constexpr std::string_view name = "accuracy";
};

}  // namespace tandem
