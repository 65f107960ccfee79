// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GnmtGraph: the graph of a models::Gnmt whose sizes are known at run time only, for planners.

#include <cstdint>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/plan/cost/sequence_nodes.hpp>

namespace tandem {

/// As the arguments of models::Gnmt.
struct GnmtSizes {
  int vocabulary = 32'000;
  int hidden = 1024;
  int layers = 4;    ///< of the encoder, and of the decoder
  int context = 50;  ///< tokens of a sentence at most
};

/// The graph of models::Gnmt<vocabulary, hidden, layers, context>, node by node; only types and
/// initial values are left out.
/// @throws ContractError  a size is not positive, or there are fewer than two layers
class GnmtGraph : public detail::SequenceNodes {
 public:
  TANDEM_ONCE explicit GnmtGraph(GnmtSizes const& sizes);

 private:
  TANDEM_ONCE void make();
  TANDEM_ONCE int encoder();
  TANDEM_ONCE int words(int from);
  TANDEM_ONCE int concat(int first, int second);
  TANDEM_ONCE int lstm(int from, int directions = 1);
  TANDEM_ONCE int look(int query, int memory);

  GnmtSizes sizes_;
  int more_;  // parts of a half that only more than two layers have
};

}  // namespace tandem

#if TANDEM_BODIES

#include <vector>

#include <tandem/core/contract.hpp>

namespace tandem {

TANDEM_ONCE GnmtGraph::GnmtGraph(GnmtSizes const& sizes)
    : sizes_{sizes}, more_{sizes.layers > 2 ? 1 : 0} {
  for (int const size : {sizes.vocabulary, sizes.hidden, sizes.context}) {
    expects(size >= 1 && size <= 1'000'000,
            "GnmtGraph: give vocabulary, hidden and context from 1 to 1000000");
  }
  expects(sizes.layers >= 2 && sizes.layers <= 1000, "GnmtGraph: give 2 to 1000 layers");
  make();
}

TANDEM_ONCE void GnmtGraph::make() {
  input(sizes_.context, sizes_.vocabulary);
  input(sizes_.context, sizes_.vocabulary);
  int const memory = encoder();
  top_ = sizes_.layers + 1;
  at({4 + more_, 1});
  int const said = words(1);
  share_first();
  ++top_;
  at({5 + more_, 1});
  int const query = lstm(said);
  back().named = true;
  ++top_;
  at({7 + more_});
  int const context = look(query, memory);
  back().named = true;
  ++top_;
  at({9 + more_, 0});
  int const both = concat(query, context);
  at({9 + more_, 1, 1});
  int last = lstm(both);
  for (int layer = 2; layer < sizes_.layers; ++layer) {
    ++top_;
    at({11, layer - 2, Path::body, 0});
    int const beside = concat(last, context);
    at({11, layer - 2, Path::body, 1, 1});
    int const body = lstm(beside);
    at({11, layer - 2});
    last = add(body, last);
  }
  ++top_;
  at({10 + 2 * more_});
  Shape const rows = out(last);
  int const v = sizes_.vocabulary;
  layer("Vocabulary", {last}, timed_shape(rows[0], 3), rows.elements() * v,
        Kept::of(true, false, std::int64_t{rows[0]} * v),
        {{"weight", {2, {v, rows[1]}}}, {"bias", vector_shape(v)}});
  back().criterion = true;
  back().limit = v;
}

TANDEM_ONCE int GnmtGraph::encoder() {
  at({0});
  int last = words(0);
  ++top_;
  at({1, 1});
  last = lstm(last, 2);
  ++top_;
  at({2, 1});
  last = lstm(last);
  for (int layer = 2; layer < sizes_.layers; ++layer) {
    ++top_;
    at({3, layer - 2, Path::body, 1});
    int const body = lstm(last);
    at({3, layer - 2});
    last = add(body, last);
  }
  back().named = true;
  return last;
}

TANDEM_ONCE int GnmtGraph::words(int from) {
  return layer("Embedding", {from}, timed_shape(sizes_.context, sizes_.hidden), 0,
               Kept::of(true, false), {{"weight", {2, {sizes_.vocabulary, sizes_.hidden}}}});
}

TANDEM_ONCE int GnmtGraph::concat(int first, int second) {
  return join(NodeKind::concat, "Concat", first, second, out(first)[1] + out(second)[1]);
}

TANDEM_ONCE int GnmtGraph::lstm(int from, int directions) {
  Shape const in = out(from);
  int const h = sizes_.hidden;
  std::int64_t const time = in[0];
  Shape const bias = vector_shape(4 * h);
  std::vector<Weight> weights{{"weight_ih_l0", {2, {4 * h, in[1]}}},
                              {"weight_hh_l0", {2, {4 * h, h}}},
                              {"bias_ih_l0", bias},
                              {"bias_hh_l0", bias}};
  if (directions == 2) {
    weights.insert(weights.end(), {{"weight_ih_l0_reverse", {2, {4 * h, in[1]}}},
                                   {"weight_hh_l0_reverse", {2, {4 * h, h}}},
                                   {"bias_ih_l0_reverse", bias},
                                   {"bias_hh_l0_reverse", bias}});
  }
  int const made = layer("Lstm", {from}, timed_shape(in[0], directions * h),
                         directions * time * 4 * h * (in[1] + h),
                         Kept::of(true, false, directions * (time * 4 * h + (time + 1) * h),
                                  directions * (time + 1) * h),
                         weights);
  back().sequence.in_chunks = directions == 1;
  back().sequence.hands_on = {h, h};
  return made;
}

TANDEM_ONCE int GnmtGraph::look(int query, int memory) {
  Shape const q = out(query);
  Shape const m = out(memory);
  int const h = sizes_.hidden;
  std::int64_t const rows = std::int64_t{q[0]} + m[0];
  std::int64_t const pairs = std::int64_t{q[0]} * m[0];
  return layer("Bahdanau", {query, memory}, timed_shape(q[0], m[1]),
               (q.elements() + m.elements()) * h + pairs * (h + m[1]),
               Kept::of(true, false, 2 * rows * h, pairs + 2 * h, 0, 7),
               {{"linear_q.weight", {2, {h, q[1]}}},
                {"linear_k.weight", {2, {h, m[1]}}},
                {"linear_att", vector_shape(h)},
                {"normalize_bias", vector_shape(h)},
                {"normalize_scalar", vector_shape(1)}});
}

}  // namespace tandem

#endif
