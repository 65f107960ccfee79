// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lstm and Gru as ONNX's operators of these names, which have their gates in another order, both
/// biases in one, and rows of time first.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/train/onnx/layers.hpp>

namespace tandem {

namespace detail {

/// @param order  which of the layer's gates ONNX has first, second and so on
/// @param attributes  of the operator besides hidden_size and direction
TANDEM_ONCE std::string onnx_recurrent(OnnxNode const& n, RecurrentOptions const& o,
                                       char const* type, std::initializer_list<std::size_t> order,
                                       OnnxGraph::Attributes attributes);

template <RecurrentOptions O>
struct OnnxHasNoProjection {
  static constexpr bool value = true;
  static_assert(O.projection == 0,
                "export_onnx(trainer, path): ONNX has no LSTM with a projection; leave "
                "Projection<P> out, or put a Linear<P, NoBias> behind");
};

template <RecurrentOptions O>
struct OnnxHasNoSteps {
  static constexpr bool value = true;
  static_assert(!O.stateful,
                "export_onnx(trainer, path): ONNX's LSTM and GRU know of no step before, so that a "
                "Stateful layer's text would begin anew with each call; export a network without "
                "Stateful that has loaded these weights");
};

}  // namespace detail

/// Without lengths: every sample is as long as the batch.
template <int H, class... Options>
struct OnnxLayer<Lstm<H, Options...>> {
  static constexpr detail::RecurrentOptions options = Lstm<H, Options...>::options;
  static_assert(detail::OnnxHasNoProjection<options>::value);
  static_assert(detail::OnnxHasNoSteps<options>::value);
  static std::string write(OnnxNode const& n) {
    return detail::onnx_recurrent(n, options, "LSTM", {0, 3, 1, 2}, {});
  }
};

template <int H, class... Options>
struct OnnxLayer<Gru<H, Options...>> {
  static_assert(detail::OnnxHasNoSteps<Gru<H, Options...>::options>::value);
  static std::string write(OnnxNode const& n) {
    return detail::onnx_recurrent(n, Gru<H, Options...>::options, "GRU", {1, 0, 2},
                                  {{"linear_before_reset", std::int64_t{1}}});
  }
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Rows of a parameter, gate by gate in ONNX's order; no parameter: zeros.
TANDEM_ONCE std::string onnx_gates(OnnxNode const& n, RecurrentOptions const& o, int parameter,
                                   bool there, std::initializer_list<std::size_t> order) {
  OnnxGraph& g = n.graph;
  std::int64_t const rows = std::int64_t{o.gates} * o.hidden;
  if (!there) {
    return g.constant({rows}, std::vector<float>(static_cast<std::size_t>(rows)));
  }
  auto const part = g.add("Split", {n.parameter(parameter)}, {{"axis", std::int64_t{0}}}, o.gates);
  OnnxGraph::Names ordered;
  for (std::size_t const gate : order) {
    ordered.push_back(part[gate]);
  }
  return g("Concat", ordered, {{"axis", std::int64_t{0}}});
}

TANDEM_ONCE std::string onnx_recurrent(OnnxNode const& n, RecurrentOptions const& o,
                                       char const* type, std::initializer_list<std::size_t> order,
                                       OnnxGraph::Attributes attributes) {
  using Ints = OnnxGraph::Ints;
  OnnxGraph& g = n.graph;
  OnnxGraph::Names weights[3];  // of the input, of the state, biases; of each direction
  for (int d = 0; d < o.directions; ++d) {
    int const first = d * o.parameters();
    auto const gates = [&](int p, bool there) { return onnx_gates(n, o, first + p, there, order); };
    std::string of_input = gates(2, o.biases > 0);
    if (o.forget_bias != 0) {
      std::vector<float> added(static_cast<std::size_t>(4 * o.hidden));
      for (std::size_t j = 0; j < static_cast<std::size_t>(o.hidden); ++j) {
        added[2 * static_cast<std::size_t>(o.hidden) + j] = static_cast<float>(o.forget_bias);
      }
      of_input = g("Add", {of_input, g.constant({std::int64_t{4} * o.hidden}, added)});
    }
    std::string const both =
        g("Concat", {of_input, gates(3, o.biases > 1)}, {{"axis", std::int64_t{0}}});
    std::string const each[3] = {gates(0, true), gates(1, true), both};
    for (int i = 0; i < 3; ++i) {
      weights[i].push_back(g("Unsqueeze", {each[i], g.integers({0})}));
    }
  }
  attributes.push_back({"hidden_size", std::int64_t{o.hidden}});
  attributes.push_back(
      {"direction", std::string_view{o.directions > 1 ? "bidirectional" : "forward"}});
  OnnxGraph::Names inputs{g("Transpose", {n.x}, {{"perm", Ints{1, 0, 2}}})};
  for (OnnxGraph::Names const& one : weights) {
    inputs.push_back(one.size() == 1 ? one[0] : g("Concat", one, {{"axis", std::int64_t{0}}}));
  }
  std::string const y = g.add(type, inputs, attributes, 1)[0];  // (T, directions, B, H)
  return g("Reshape", {g("Transpose", {y}, {{"perm", Ints{2, 0, 1, 3}}}),
                       g.integers({0, 0, std::int64_t{o.directions} * o.hidden})});
}

}  // namespace tandem::detail

#endif
