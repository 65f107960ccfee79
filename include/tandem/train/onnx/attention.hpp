// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Attention and its rotary positions as products and a softmax, for any number of rows.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/layers/attention.hpp>
#include <tandem/layers/rotary_positions.hpp>
#include <tandem/train/onnx/layers.hpp>

namespace tandem {

namespace detail {

/// (1, T, T): 0 where a row looks, -inf where the key comes later. T as scores (…, T, T) have it.
TANDEM_ONCE std::string causal_mask(OnnxGraph& g, std::string const& scores);

}  // namespace detail

/// Heads of queries in groups (N, K, G, T, D), each group of one head of keys and values (N, K, 1,
/// …), so that one graph is for every number of either.
template <int Heads, class... Options>
struct OnnxLayer<Attention<Heads, Options...>> {
  using L = Attention<Heads, Options...>;
  static std::string write(OnnxNode const& n) {
    using Ints = OnnxGraph::Ints;
    OnnxGraph& g = n.graph;
    constexpr std::int64_t keys = L::key_heads;
    constexpr std::int64_t group = Heads / L::key_heads;
    std::int64_t const width = L::width(n.in);
    auto const part = g.add("Split", {n.x, g.integers({Heads * width, keys * width, keys * width})},
                            {{"axis", std::int64_t{-1}}}, 3);
    auto const heads = [&](std::string const& x, std::int64_t of_key, Ints const& order) {
      return g("Transpose", {g("Reshape", {x, g.integers({0, 0, keys, of_key, width})})},
               {{"perm", order}});
    };
    std::string const q = heads(part[0], group, {0, 2, 3, 1, 4});
    std::string const k = heads(part[1], 1, {0, 2, 3, 4, 1});
    std::string const v = heads(part[2], 1, {0, 2, 3, 1, 4});
    double const scale = 1.0 / std::sqrt(static_cast<double>(width));
    std::string scores = g("MatMul", {g("Mul", {q, g.scalar(scale)}), k});
    if (L::causal) {
      scores = g("Add", {scores, detail::causal_mask(g, scores)});
    }
    std::string const y = g("MatMul", {g("Softmax", {scores}), v});
    return g("Reshape", {g("Transpose", {y}, {{"perm", Ints{0, 3, 1, 2, 4}}}),
                         g.integers({0, 0, Heads * width})});
  }
};

template <int Heads, class... Options>
struct OnnxLayer<RotaryPositions<Heads, Options...>> {
  static std::string write(OnnxNode const& n) {
    constexpr detail::RotaryOptions options = RotaryPositions<Heads, Options...>::options;
    OnnxGraph& g = n.graph;
    std::int64_t const width = n.channels() / options.all();
    std::int64_t const rest = options.all() - options.turned();
    std::string const x = g("Reshape", {n.x, g.integers({0, 0, options.all(), width})});
    auto const part =
        g.add("Split", {x, g.integers({options.turned(), rest})}, {{"axis", std::int64_t{2}}}, 2);
    auto const half = detail::halves(g, part[0], width / 2);
    std::string const rows = detail::rows_of(g, n.x);
    std::string const cosine =
        detail::first_rows(g, table(n, width, [](double a) { return std::cos(a); }), rows);
    std::string const sine =
        detail::first_rows(g, table(n, width, [](double a) { return std::sin(a); }), rows);
    auto const times = [&](std::string const& a, std::string const& b) { return g("Mul", {a, b}); };
    std::string const first = g("Sub", {times(half[0], cosine), times(half[1], sine)});
    std::string const second = g("Add", {times(half[1], cosine), times(half[0], sine)});
    std::string const turned = g("Concat", {first, second}, {{"axis", std::int64_t{-1}}});
    std::string const all = g("Concat", {turned, part[1]}, {{"axis", std::int64_t{2}}});
    return g("Reshape", {all, g.integers({0, 0, n.channels()})});
  }

 private:
  // (T, 1, D / 2) of f(t base^(-2 i / D)).
  template <class F>
  static std::string table(OnnxNode const& n, std::int64_t width, F const& f) {
    std::vector<float> numbers;
    for (int t = 0; t < n.in[0]; ++t) {
      for (int i = 0; i < width / 2; ++i) {
        double const frequency = std::pow(RotaryPositions<Heads, Options...>::options.base,
                                          -2.0 * i / static_cast<double>(width));
        numbers.push_back(static_cast<float>(f(t * frequency)));
      }
    }
    return n.graph.constant({n.in[0], 1, width / 2}, numbers);
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string causal_mask(OnnxGraph& g, std::string const& scores) {
  std::string const shape = g("Shape", {scores}, {{"start", std::int64_t{-2}}});
  std::string const all = g("Expand", {g.scalar(-INFINITY), shape});
  return g("Trilu", {all, g.index(1)});
}

}  // namespace tandem::detail

#endif
