// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OnnxLayer<L>: the operators of ONNX that compute a layer in evaluation mode; of activations,
/// products, norms of rows and sequences.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/layers/activation.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/layer_norm.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/smooth_activation.hpp>
#include <tandem/layers/time_pool.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/train/onnx/graph.hpp>

namespace tandem {

namespace detail {

template <class L>
inline constexpr bool has_onnx = false;  // what the sentence depends on

template <class L>
struct LayerHasOnnx {
  static constexpr bool value = true;
  static_assert(
      has_onnx<L>,
      "export_onnx(trainer, path): this layer has no operators of ONNX; for a layer of "
      "yours specialise tandem::OnnxLayer with static std::string write(OnnxNode const&)");
};

}  // namespace detail

/// write(node) adds the layer's operators and gives the name of its output. A specialisation for a
/// layer of the user's makes it one that can be exported.
/// The primary template is the error path.
template <class L>
struct OnnxLayer {
  static_assert(detail::LayerHasOnnx<L>::value);
  static std::string write(OnnxNode const& n) { return n.x; }
};

namespace detail {

using OnnxInts = OnnxGraph::Ints;

/// The two halves of the last axis.
TANDEM_ONCE OnnxGraph::Names halves(OnnxGraph& g, std::string const& x, std::int64_t half);

/// How many rows x has, as a list of one number.
TANDEM_ONCE std::string rows_of(OnnxGraph& g, std::string const& x);
/// The first rows of a table with one for each position: as many as x has.
TANDEM_ONCE std::string first_rows(OnnxGraph& g, std::string const& table, std::string const& rows);

/// x weightᵀ + bias, of a vector or of each row.
TANDEM_ONCE std::string product(OnnxNode const& n);

TANDEM_ONCE std::string silu(OnnxGraph& g, std::string const& x);

}  // namespace detail

template <>
struct OnnxLayer<ReLU> {
  static std::string write(OnnxNode const& n) { return n.graph("Relu", {n.x}); }
};
template <>
struct OnnxLayer<Sigmoid> {
  static std::string write(OnnxNode const& n) { return n.graph("Sigmoid", {n.x}); }
};
template <>
struct OnnxLayer<Tanh> {
  static std::string write(OnnxNode const& n) { return n.graph("Tanh", {n.x}); }
};
template <>
struct OnnxLayer<Softmax> {
  static std::string write(OnnxNode const& n) { return n.graph("Softmax", {n.x}); }
};
template <class Rate>
struct OnnxLayer<Dropout<Rate>> {
  static std::string write(OnnxNode const& n) { return n.x; }
};
template <>
struct OnnxLayer<SiLU> {
  static std::string write(OnnxNode const& n) { return detail::silu(n.graph, n.x); }
};
template <>
struct OnnxLayer<SwiGlu> {
  static std::string write(OnnxNode const& n) {
    auto const part = detail::halves(n.graph, n.x, n.channels() / 2);
    return n.graph("Mul", {detail::silu(n.graph, part[0]), part[1]});
  }
};
template <>
struct OnnxLayer<Gelu> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph& g = n.graph;
    std::string const erf = g("Erf", {g("Div", {n.x, g.scalar(std::numbers::sqrt2)})});
    return g("Mul", {n.x, g("Mul", {g("Add", {erf, g.scalar(1.0)}), g.scalar(0.5)})});
  }
};
template <>
struct OnnxLayer<GeluTanh> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph& g = n.graph;
    std::string const cube = g("Mul", {g("Mul", {n.x, n.x}), n.x});
    std::string const inner = g("Add", {n.x, g("Mul", {cube, g.scalar(0.044715)})});
    double const slope = std::sqrt(2.0 * std::numbers::inv_pi);
    std::string const tanh = g("Tanh", {g("Mul", {inner, g.scalar(slope)})});
    return g("Mul", {n.x, g("Mul", {g("Add", {tanh, g.scalar(1.0)}), g.scalar(0.5)})});
  }
};

template <int Out, class... Options>
struct OnnxLayer<Linear<Out, Options...>> {
  static std::string write(OnnxNode const& n) { return detail::product(n); }
};
/// Logits of all rows: (N, T, V).
template <int V, class... Options>
struct OnnxLayer<Vocabulary<V, Options...>> {
  static std::string write(OnnxNode const& n) { return detail::product(n); }
};
template <int V, int C, class... Options>
struct OnnxLayer<Embedding<V, C, Options...>> {
  static std::string write(OnnxNode const& n) { return n.graph("Gather", {n.parameter(0), n.x}); }
};
template <class... Options>
struct OnnxLayer<Positions<Options...>> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph& g = n.graph;
    return g("Add", {n.x, detail::first_rows(g, n.parameter(0), detail::rows_of(g, n.x))});
  }
};

template <class... Options>
struct OnnxLayer<LayerNorm<Options...>> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph::Names inputs{n.x, n.parameter(0)};
    if (n.has_parameter(1)) {
      inputs.push_back(n.parameter(1));
    }
    return n.graph("LayerNormalization", inputs, {{"epsilon", LayerNorm<Options...>::epsilon}});
  }
};
template <class... Options>
struct OnnxLayer<RmsNorm<Options...>> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph& g = n.graph;
    std::string const mean =
        g("ReduceMean", {g("Mul", {n.x, n.x})}, {{"axes", detail::OnnxInts{-1}}});
    std::string const root = g("Sqrt", {g("Add", {mean, g.scalar(RmsNorm<Options...>::epsilon)})});
    return g("Mul", {g("Div", {n.x, root}), n.parameter(0)});
  }
};

template <>
struct OnnxLayer<LastRow> {
  static std::string write(OnnxNode const& n) {
    OnnxGraph& g = n.graph;
    std::string const last =
        g("Slice", {n.x, g.integers({-1}), g.integers({std::int64_t{1} << 31}), g.integers({1})});
    return g("Squeeze", {last, g.integers({1})});
  }
};
template <>
struct OnnxLayer<MeanOverTime> {
  static std::string write(OnnxNode const& n) {
    return n.graph("ReduceMean", {n.x},
                   {{"axes", detail::OnnxInts{1}}, {"keepdims", std::int64_t{0}}});
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE OnnxGraph::Names halves(OnnxGraph& g, std::string const& x, std::int64_t half) {
  return g.add("Split", {x, g.integers({half, half})}, {{"axis", std::int64_t{-1}}}, 2);
}

TANDEM_ONCE std::string rows_of(OnnxGraph& g, std::string const& x) {
  return g("Shape", {x}, {{"start", std::int64_t{1}}, {"end", std::int64_t{2}}});
}

TANDEM_ONCE std::string first_rows(OnnxGraph& g, std::string const& table,
                                   std::string const& rows) {
  return g("Slice", {table, g.integers({0}), rows, g.integers({0})});
}

TANDEM_ONCE std::string product(OnnxNode const& n) {
  OnnxGraph& g = n.graph;
  if (!n.in.timed) {
    OnnxGraph::Names inputs{n.x, n.parameter(0)};
    if (n.has_parameter(1)) {
      inputs.push_back(n.parameter(1));
    }
    return g("Gemm", inputs, {{"transB", std::int64_t{1}}});
  }
  std::string const weight = g("Transpose", {n.parameter(0)}, {{"perm", OnnxInts{1, 0}}});
  std::string const y = g("MatMul", {n.x, weight});
  return n.has_parameter(1) ? g("Add", {y, n.parameter(1)}) : y;
}

TANDEM_ONCE std::string silu(OnnxGraph& g, std::string const& x) {
  return g("Mul", {x, g("Sigmoid", {x})});
}

}  // namespace tandem::detail

#endif
