// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gelu, GeluTanh, SiLU, Sigmoid, Tanh, Softmax and SwiGlu: layers without parameters.

#include <string_view>

#include <tandem/graph/columns.hpp>
#include <tandem/graph/layer.hpp>
#include <tandem/graph/neighbourhood.hpp>
#include <tandem/layers/rows.hpp>

namespace tandem {

/// y = x Φ(x), Φ the standard normal distribution: GELU by the error function, PyTorch's default.
/// Source: Hendrycks, Gimpel, arXiv:1606.08415
struct Gelu {
  using layer = Gelu;
  static constexpr std::string_view name = "Gelu";
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
};

/// y = 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x³))): GELU as GPT-2 has it.
struct GeluTanh {
  using layer = GeluTanh;
  static constexpr std::string_view name = "GeluTanh";
  static constexpr LayerKind kind = LayerKind::gelu_tanh;
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
};

/// y = x / (1 + exp(-x)).
struct SiLU {
  using layer = SiLU;
  static constexpr std::string_view name = "SiLU";
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
};

/// y = 1 / (1 + exp(-x)). Its gradient is taken from y.
struct Sigmoid {
  using layer = Sigmoid;
  static constexpr std::string_view name = "Sigmoid";
  static constexpr Kept kept(Shape) { return Kept::of(false, true); }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
};

/// y = tanh(x). Its gradient is taken from y.
struct Tanh {
  using layer = Tanh;
  static constexpr std::string_view name = "Tanh";
  static constexpr Kept kept(Shape) { return Kept::of(false, true); }
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Columns columns(Shape) { return Columns::alike(); }
  static constexpr Neighbourhood neighbourhood(Shape) { return Neighbourhood::alone(); }
};

/// y = exp(x) / sum(exp(x)), over the last axis. Its gradient is taken from y.
///
/// Shapes: x (B, T, C) or (B, C); y as x.
struct Softmax {
  using layer = Softmax;
  static constexpr std::string_view name = "Softmax";
  static constexpr Kept kept(Shape) { return Kept::of(false, true); }
  static constexpr Fault fault(Shape in) {
    return detail::has_rows(in) ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape in) { return in; }
};

/// y = silu(first half of x) * second half, over the last axis, which is even.
///
/// Shapes: x (B, T, 2 C) or (B, 2 C); y (B, T, C) or (B, C).
/// Source: Shazeer, arXiv:2002.05202
struct SwiGlu {
  using layer = SwiGlu;
  static constexpr std::string_view name = "SwiGlu";
  static constexpr bool in_chunks = true;
  static constexpr Kept kept(Shape) { return Kept::of(true, false); }
  static constexpr Fault fault(Shape in) {
    return detail::has_rows(in) ? Fault::none : Fault::not_a_vector;
  }
  static constexpr Shape output(Shape in) {
    int const size = detail::row_size(in);
    return size % 2 == 0 ? detail::with_row_size(in, size / 2) : Shape{};
  }
  static constexpr Columns columns(Shape in) {
    int const size = detail::row_size(in) / 2;
    return {.in = {2, {size, size}, {1, 1}}, .out = ColumnParts::whole(size)};
  }
};

}  // namespace tandem
