// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BatchNorm2d: normalisation of each channel over the microbatch.

#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/layers/options.hpp>

namespace tandem {

namespace detail {

template <class... Options>
struct BatchNorm2dIsSound {
  static constexpr bool value = true;
  static_assert((NormOption<Options> && ...),
                "BatchNorm2d<Options...>: options are Epsilon and Momentum");
};

}  // namespace detail

/// y = (x - mean) / sqrt(var + epsilon) * weight + bias, mean and var of a channel over B, H, W.
///
/// Shapes: x, y (B, C, H, W); weight, bias, running_mean, running_var (C).
/// Saves:  mean and 1 / sqrt(var + epsilon) of the microbatch, 2 C elements, until backward.
/// Cost:   forward reads x three times and writes y; bound by memory.
/// The microbatch is the unit of statistics under every strategy. Running statistics move once a
/// step, by Momentum (default 1/10), towards the average over the step's microbatches, each
/// weighted by its samples; evaluation uses them. Options: Epsilon<1, 100000>, Momentum<1, 10>.
/// Source: Ioffe, Szegedy, arXiv:1502.03167; variance in running_var unbiased, as PyTorch.
/// The primary template is the error path.
template <class... Options>
struct BatchNorm2d {
  static constexpr std::string_view name = "BatchNorm2d";
  static constexpr Fault fault(Shape) { return Fault::reported; }
  static constexpr Shape output(Shape) { return {}; }
  static_assert(detail::BatchNorm2dIsSound<Options...>::value);
};

template <class... Options>
struct SyncBatchNorm2d;

template <class... Options>
  requires(NormOption<Options>&&...)
struct BatchNorm2d<Options...> {
  using layer = BatchNorm2d;
  using synchronized = SyncBatchNorm2d<Options...>;  ///< the same with joined statistics
  static constexpr std::string_view name = "BatchNorm2d";
  static constexpr detail::LayerOptions options = detail::gather_options<Options...>();
  static constexpr double epsilon = options.epsilon;
  static constexpr double momentum = options.momentum;
  /// Tells the engine that a microbatch with one value a channel has no variance.
  static constexpr bool normalizes_over_batch = true;
  static constexpr LayerKind kind = LayerKind::batch_norm;

  static constexpr Fault fault(Shape in) {
    return in.rank == 3 ? Fault::none : Fault::not_an_image;
  }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) {
    return Neighbourhood::alone();
  }  // its sums are joined
  static constexpr Parameters parameters(Shape in) {
    Shape const channels = vector_shape(in[0]);
    Init const zero = Init::constant(0.0F);
    Init const one = Init::constant(1.0F);
    auto const rate = static_cast<float>(momentum);
    return Parameters{Parameter{"weight", channels, one}, Parameter{"bias", channels, zero},
                      Parameter{"running_mean", channels, zero, Role::statistic, rate},
                      Parameter{"running_var", channels, one, Role::statistic, rate}};
  }
};

}  // namespace tandem
