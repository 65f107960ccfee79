// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BigLstmGraph: the graph of a models::BigLstm whose sizes are known at run time only, for
/// planners.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/plan/cost/sequence_nodes.hpp>

namespace tandem {

/// As the arguments of models::BigLstm; the default is BIGLSTM of its source.
struct BigLstmSizes {
  int vocabulary = 793'470;
  int states = 8192;
  int projection = 1024;
  int layers = 2;
  int context = 20;    ///< words that a step reads, which are always 20 of the type
  int sampled = 8192;  ///< words of the softmax; no more than there are
};

/// The graph of models::BigLstm<vocabulary, states, projection, layers, Sampled<sampled>, Stateful,
/// RowGradient> node by node; only types and initial values are left out.
/// @throws ContractError  a size is not positive, or the sample has all words
class BigLstmGraph : public detail::SequenceNodes {
 public:
  TANDEM_ONCE explicit BigLstmGraph(BigLstmSizes const& sizes);

 private:
  TANDEM_ONCE void make();
  TANDEM_ONCE int dropout(int from);
  TANDEM_ONCE int lstm(int from);

  BigLstmSizes sizes_;
};

}  // namespace tandem

#if TANDEM_BODIES

#include <tandem/core/contract.hpp>

namespace tandem {

TANDEM_ONCE BigLstmGraph::BigLstmGraph(BigLstmSizes const& sizes) : sizes_{sizes} {
  for (int const size : {sizes.vocabulary, sizes.states, sizes.projection, sizes.layers,
                         sizes.context, sizes.sampled}) {
    expects(size >= 1 && size <= 1'000'000,
            "BigLstmGraph: give vocabulary, states, projection, layers, context and sampled from "
            "1 to 1000000");
  }
  expects(sizes.sampled < sizes.vocabulary,
          "BigLstmGraph: a sample of the words has fewer than all of them");
  make();
}

TANDEM_ONCE void BigLstmGraph::make() {
  int const v = sizes_.vocabulary;
  int const p = sizes_.projection;
  int const t = sizes_.context;
  input(t, v);
  at({0});
  int last = layer("Embedding", {0}, timed_shape(t, p), 0, Kept::of(true, false),
                   {{"weight", {2, {v, p}}, {.of_sample = t}}});
  ++top_;
  at({1});
  last = dropout(last);
  for (int block = 0; block < sizes_.layers; ++block) {
    ++top_;
    at({2, block, 0});
    last = lstm(last);
    at({2, block, 1});
    last = dropout(last);
  }
  ++top_;
  at({3});
  std::int64_t const logits = std::int64_t{t} * (sizes_.sampled + 1);
  RowsTouched const rows{.of_sample = t, .of_step = sizes_.sampled};
  layer("Vocabulary", {last}, timed_shape(t, 3), logits * p, Kept::of(true, false, logits),
        {{"weight", {2, {v, p}}, rows}, {"bias", vector_shape(v), rows}});
  back().layer = LayerKind::other;  // its softmax is of a sample
  back().criterion = true;
  back().limit = v;
}

TANDEM_ONCE int BigLstmGraph::dropout(int from) {
  int const made = layer("Dropout", {from}, out(from), 0, Kept::of(false, false), {});
  back().rate = 0.1;
  return made;
}

TANDEM_ONCE int BigLstmGraph::lstm(int from) {
  int const s = sizes_.states;
  int const p = sizes_.projection;
  std::int64_t const time = sizes_.context;
  std::int64_t const saved = time * 4 * s + (time + 1) * p + time * (s + p);
  int const made = layer("Lstm", {from}, timed_shape(sizes_.context, p),
                         time * (std::int64_t{4} * s * 2 * p + std::int64_t{p} * s),
                         Kept::of(true, false, saved, (time + 1) * s),
                         {{"weight_ih_l0", {2, {4 * s, p}}},
                          {"weight_hh_l0", {2, {4 * s, p}}},
                          {"bias_ih_l0", vector_shape(4 * s)},
                          {"weight_hr_l0", {2, {p, s}}}});
  back().sequence.carried = back().sequence.hands_on = {s, p};
  back().sequence.in_chunks = true;
  return made;
}

}  // namespace tandem

#endif
