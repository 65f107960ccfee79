// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GptGraph: the graph of a models::Gpt whose sizes are known at run time only, for planners.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/plan/cost/sequence_nodes.hpp>

namespace tandem {

/// As the arguments of models::Gpt; the default is GPT-2.
struct GptSizes {
  int vocabulary = 50257;
  int context = 1024;  ///< T
  int width = 768;     ///< C
  int heads = 12;
  int layers = 12;
};

/// The graph of models::Gpt<vocabulary, context, width, heads, layers>, node by node; only types
/// and initial values are left out. Not copyable: views refer to it.
/// @throws ContractError  a size is not positive, or the width is no multiple of the heads
class GptGraph : public detail::SequenceNodes {
 public:
  TANDEM_ONCE explicit GptGraph(GptSizes const& sizes);

 private:
  TANDEM_ONCE void make();
  TANDEM_ONCE int layer_norm(int from, Kept const& kept);
  TANDEM_ONCE int linear(int from, int columns);

  GptSizes sizes_;
};

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/core/contract.hpp>

namespace tandem {

TANDEM_ONCE GptGraph::GptGraph(GptSizes const& sizes) : sizes_{sizes} {
  for (int const size : {sizes.vocabulary, sizes.context, sizes.width, sizes.heads, sizes.layers}) {
    expects(size >= 1 && size <= 1'000'000,
            "GptGraph: give vocabulary, context, width, heads and layers from 1 to 1000000");
  }
  expects(sizes.width % sizes.heads == 0,
          "GptGraph: the width must be a multiple of the heads, each of which has its part of "
          "it");
  make();
}

TANDEM_ONCE void GptGraph::make() {
  int const channels = sizes_.width;
  Shape const rows = timed_shape(sizes_.context, channels);
  Weight const words{"weight", {2, {sizes_.vocabulary, channels}}};
  int const norm_sums = 2 * channels;
  input(sizes_.context, sizes_.vocabulary);
  at({0});
  int last = layer("Embedding", {0}, rows, 0, Kept::of(true, false), {words});
  top_ = 1;
  at({1, 0});
  last = layer("Positions", {last}, rows, 0, Kept::of(false, false),
               {{"weight", {2, {sizes_.context, channels}}}});
  back().sequence.in_chunks = true;
  Kept const norm = Kept::of(true, false, 0, 2 * std::int64_t{sizes_.context}, norm_sums);
  for (int block = 0; block < sizes_.layers; ++block) {
    top_ = 2 + block;
    at({2, block, 0, Path::body, 0});
    int body = layer_norm(last, norm);
    at({2, block, 0, Path::body, 1});
    body = linear(body, 3 * channels);
    at({2, block, 0, Path::body, 2});
    std::int64_t const pairs = std::int64_t{sizes_.context} * (sizes_.context + 1) / 2;
    body = layer("Attention", {body}, rows, 2 * pairs * channels,
                 Kept::of(true, true, 0, std::int64_t{sizes_.context} * sizes_.heads), {});
    int const head = channels / sizes_.heads;
    back().sequence.in_chunks = true;
    back().sequence.hands_back = std::int64_t{sizes_.context} * 2 * channels;
    back().sharing.columns = {.in = {3, {channels, channels, channels}, {head, head, head}},
                              .out = {1, {channels}, {head}}};
    at({2, block, 0, Path::body, 3});
    body = linear(body, channels);
    at({2, block, 0});
    last = add(body, last);
    at({2, block, 1, Path::body, 0});
    body = layer_norm(last, norm);
    at({2, block, 1, Path::body, 1});
    body = linear(body, 4 * channels);
    at({2, block, 1, Path::body, 2});
    body = layer("GeluTanh", {body}, timed_shape(sizes_.context, 4 * channels), 0,
                 Kept::of(true, false), {});
    at({2, block, 1, Path::body, 3});
    body = linear(body, channels);
    at({2, block, 1});
    last = add(body, last);
  }
  top_ = 2 + sizes_.layers;
  at({3});
  last = layer_norm(last, norm);
  ++top_;
  at({4});
  std::int64_t const logits = std::int64_t{sizes_.context} * sizes_.vocabulary;
  layer("Vocabulary", {last}, timed_shape(sizes_.context, 3), logits * channels,
        Kept::of(true, false, logits), {words});
  back().criterion = true;
  back().limit = sizes_.vocabulary;
  share_first();
}

TANDEM_ONCE int GptGraph::layer_norm(int from, Kept const& kept) {
  Shape const channels = vector_shape(sizes_.width);
  return layer("LayerNorm", {from}, out(from), 0, kept, {{"weight", channels}, {"bias", channels}});
}

TANDEM_ONCE int GptGraph::linear(int from, int columns) {
  Shape const in = out(from);
  return layer("Linear", {from}, timed_shape(sizes_.context, columns), in.elements() * columns,
               Kept::of(true, false),
               {{"weight", {2, {columns, in[1]}}}, {"bias", vector_shape(columns)}});
}

}  // namespace tandem

#endif
