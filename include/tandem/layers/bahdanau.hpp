// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bahdanau: attention of one sequence's rows to another's, additive and normalised, as in GNMT.

#include <concepts>
#include <cstdint>

#include <tandem/graph/layer.hpp>
#include <tandem/layers/init_options.hpp>

namespace tandem {

namespace detail {

template <int Width, class... Options>
struct BahdanauIsSound {
  static constexpr bool value = true;
  static_assert(Width >= 1 && (InitOption<Options> && ...),
                "Bahdanau<H, Options...>: give a positive number of hidden numbers; options are "
                "InitNormal and InitUniform");
};

}  // namespace detail

/// y = Σ p m, of p = softmax over m's rows of (g v / |v|)·tanh(W_q q + W_k m + b): what each row q
/// of the first input takes of the rows m of the second, as Join<Bahdanau<H>, Use<Query>,
/// Use<Memory>>. Option: an initial law of W_q, W_k and v.
///
/// Shapes: q (B, Tq, Cq), m (B, Tk, Cm); linear_q.weight (H, Cq), linear_k.weight (H, Cm),
///         linear_att (H), which is v, normalize_bias (H), which is b, normalize_scalar (1), which
///         is g; y (B, Tq, Cm). Rows of m behind its sample's length are not looked at.
/// Saves:  what W_q and W_k make, their gradients, the probabilities, and a sample's gradients of v
///         and b: 2 (Tq + Tk) H + Tq Tk + 2 H numbers a sample; never the Tq Tk H that go through
///         tanh, which backward computes again.
/// Cost:   (Tq Cq + Tk Cm) H + Tq Tk (H + Cm) multiply-accumulates and Tq Tk H hyperbolic tangents
///         a sample; backward twice as many.
/// Init:   uniform in ±1/√C of W_q and W_k and in ±1/√H of v; b is 0, g 1/√H.
/// Source: Bahdanau et al., arXiv:1409.0473; NVIDIA's GNMT v2 (normalised)
/// The primary template is the error path.
template <int Width, class... Options>
struct Bahdanau {
  static constexpr std::string_view name = "Bahdanau";
  static constexpr Fault fault(Shape, Shape) { return Fault::reported; }
  static constexpr Shape output(Shape, Shape) { return {}; }
  static_assert(detail::BahdanauIsSound<Width, Options...>::value);
};

template <int Width, class... Options>
  requires(Width >= 1 && (InitOption<Options> && ...))
struct Bahdanau<Width, Options...> {
  using layer = Bahdanau;
  static constexpr std::string_view name = "Bahdanau";
  static constexpr int width = Width;

  static constexpr Fault fault(Shape query, Shape memory) {
    bool const rows = query.rank == 2 && query.timed && memory.rank == 2 && memory.timed;
    return rows ? Fault::none : Fault::not_timed;
  }
  static constexpr Shape output(Shape query, Shape memory) {
    return timed_shape(query[0], memory[1]);
  }
  static constexpr Parameters parameters(Shape query, Shape memory) {
    float const scale = static_cast<float>(1.0 / detail::square_root(Width));
    return Parameters{Parameter{"linear_q.weight", {2, {Width, query[1]}}, law(query[1])},
                      Parameter{"linear_k.weight", {2, {Width, memory[1]}}, law(memory[1])},
                      Parameter{"linear_att", vector_shape(Width), law(Width)},
                      Parameter{"normalize_bias", vector_shape(Width), Init::constant(0.0F)},
                      Parameter{"normalize_scalar", vector_shape(1), Init::constant(scale)}};
  }
  static constexpr Kept kept(Shape query, Shape memory) {
    std::int64_t const rows = std::int64_t{query[0]} + memory[0];
    return Kept::of(true, false, 2 * rows * Width, std::int64_t{query[0]} * memory[0] + 2 * Width,
                    0, 7);
  }
  static constexpr std::int64_t macs(Shape query, Shape memory) {
    return (query.elements() + memory.elements()) * Width +
           std::int64_t{query[0]} * memory[0] * (Width + memory[1]);
  }

 private:
  static constexpr Init law(int fan_in) {
    return detail::init_of<Options...>(Init::uniform_fan_in(fan_in));
  }
};

}  // namespace tandem
