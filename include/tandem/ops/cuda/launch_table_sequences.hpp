// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What Lstm, Gru and Bahdanau queue on Cuda in a training step, a line a kernel: a part of
/// launch_table.hpp, which says what the numbers are.

#include <tandem/ops/cuda/launch_sizes.hpp>

namespace tandem::cuda::detail {

/// Sizes of an Lstm or Gru in a step; T and R: bytes of both directions, of activations and of
/// parameters.
struct RecurrentLaunches {
  LaunchSizes const& s;
  RecurrentShape const& r = s.traits.recurrent;
  bool lstm = s.node.name == "Lstm";
  /// Whether its first row goes on from a state: of the step before, or of a chunk of time.
  bool goes_on = s.node.sequence.carried.any() || s.chunk > 0;
  bool leaves = s.node.sequence.carried.any() || s.in_chunks();  ///< its last row leaves one
  double directions = r.directions;
  double time = s.node.in[0];
  double batch = s.batch;
  double width = (lstm ? 4.0 : 3.0) * static_cast<double>(r.hidden);
  double inputs = static_cast<double>(r.inputs);
  double hidden = static_cast<double>(r.hidden);
  double handed = static_cast<double>(r.handed);

  [[nodiscard]] constexpr double T(double n) const { return directions * s.rounded(n); }
  [[nodiscard]] constexpr double R(double n) const { return directions * s.kept(n); }
  [[nodiscard]] constexpr double rows() const { return batch * time; }
  /// Rows of time behind the first, and those before which there is a state.
  [[nodiscard]] constexpr double later() const { return time - 1; }
  [[nodiscard]] constexpr double begun() const { return goes_on ? time : later(); }
  /// Rows whose gradient goes further back, and rows behind which there is one.
  [[nodiscard]] constexpr double back() const { return s.chunk > 0 ? time : later(); }
  [[nodiscard]] constexpr double after() const { return s.last_chunk() ? later() : time; }
  /// Arrays of a row of all samples.
  [[nodiscard]] constexpr double gates() const { return batch * width; }
  [[nodiscard]] constexpr double state() const { return batch * hidden; }
  [[nodiscard]] constexpr double given() const { return batch * handed; }
};

using Recurrent = RecurrentLaunches;

constexpr double rnn_one(LaunchSizes const& s) { return s.traits.recurrent.directions; }
constexpr double rnn_rows(LaunchSizes const& s) { return rnn_one(s) * s.node.in[0]; }
constexpr double rnn_back(LaunchSizes const& s) { return rnn_one(s) * Recurrent{s}.back(); }
constexpr double rnn_begun(LaunchSizes const& s) { return rnn_one(s) * Recurrent{s}.begun(); }
constexpr double rnn_biases(LaunchSizes const& s) { return rnn_one(s) * s.traits.recurrent.biases; }
constexpr bool rnn_always(LaunchSizes const&) { return true; }
constexpr bool rnn_biased(LaunchSizes const& s) { return s.traits.recurrent.biases > 0; }
constexpr bool rnn_projected(LaunchSizes const& s) { return s.traits.recurrent.projected; }
constexpr bool rnn_goes_on(LaunchSizes const& s) { return Recurrent{s}.goes_on; }
constexpr bool rnn_hands_on(LaunchSizes const& s) { return rnn_projected(s) || !rnn_goes_on(s); }
constexpr bool rnn_goes_back(LaunchSizes const& s) { return !s.gives_input_gradient; }
constexpr bool rnn_projected_back(LaunchSizes const& s) {
  return rnn_projected(s) && rnn_goes_back(s);
}
constexpr double rnn_none(LaunchSizes const&) { return 0; }

// Products of all rows: with weight_ih, back, and the gradients of weights.
constexpr double rnn_input_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.T(r.rows() * r.inputs + r.width * r.inputs);
}
constexpr double rnn_input_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.R(r.rows() * r.width);
}
constexpr double rnn_input_products(LaunchSizes const& s) {
  Recurrent const r{s};
  return 2 * r.directions * r.rows() * r.width * r.inputs;
}
constexpr double rnn_back_read(LaunchSizes const& s) {  // the second direction adds to the first's
  Recurrent const r{s};
  return r.T(r.rows() * r.width + r.width * r.inputs) + (r.directions - 1) * s.x;
}
constexpr double rnn_back_written(LaunchSizes const& s) { return rnn_one(s) * s.x; }
constexpr double rnn_weights(LaunchSizes const& s) {  // elements of all matrices of a direction
  Recurrent const r{s};
  return r.width * (r.inputs + r.handed) + (rnn_projected(s) ? r.handed * r.hidden : 0);
}
constexpr double rnn_weight_read(LaunchSizes const& s) {
  Recurrent const r{s};
  double const projection = rnn_projected(s) ? r.handed + r.hidden : 0;
  return r.T(r.rows() * (2 * r.width + r.inputs + r.handed + projection)) +
         (s.accumulates ? r.R(rnn_weights(s)) : 0);
}
constexpr double rnn_weight_written(LaunchSizes const& s) { return Recurrent{s}.R(rnn_weights(s)); }
constexpr double rnn_weight_products(LaunchSizes const& s) {
  return 2 * rnn_one(s) * Recurrent{s}.rows() * rnn_weights(s);
}
constexpr double rnn_weight_calls(LaunchSizes const& s) {
  return rnn_one(s) * (rnn_projected(s) ? 3 : 2);
}

// Products of a row of all samples with the state; an LSTM's are added to those of the input, and
// in backward a GRU's to what goes past them.
constexpr double rnn_state_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.begun() * (r.T(r.given() + r.width * r.handed) + (r.lstm ? r.R(r.gates()) : 0));
}
constexpr double rnn_state_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.begun() * r.R(r.gates());
}
constexpr double rnn_state_back_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.back() * (r.T(r.gates() + r.width * r.handed) + (r.lstm ? 0 : r.R(r.given())));
}
constexpr double rnn_state_back_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.back() * r.R(r.given());
}
constexpr double rnn_state_products(LaunchSizes const& s) {
  Recurrent const r{s};
  return 2 * r.directions * r.begun() * r.given() * r.width;
}
constexpr double rnn_state_back_products(LaunchSizes const& s) {
  Recurrent const r{s};
  return 2 * r.directions * r.back() * r.given() * r.width;
}
constexpr double rnn_projection_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.time * r.T(r.state() + r.handed * r.hidden);
}
constexpr double rnn_projection_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.time * r.R(r.given());
}
constexpr double rnn_projection_back_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.time * r.T(r.given() + r.handed * r.hidden);
}
constexpr double rnn_projection_back_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.time * r.R(r.state());
}
constexpr double rnn_projection_products(LaunchSizes const& s) {
  Recurrent const r{s};
  return 2 * r.directions * r.rows() * r.handed * r.hidden;
}

// The kernels of a row, all rows together.
constexpr double rnn_row_read(LaunchSizes const& s) {
  Recurrent const r{s};
  double const of_gru = r.begun() * r.R(r.gates()) + r.begun() * r.T(r.state());
  return r.time * r.R(r.gates() + r.r.biases * r.width) +
         (r.lstm ? r.begun() * r.R(r.state()) : of_gru);
}
constexpr double rnn_row_written(LaunchSizes const& s) {
  Recurrent const r{s};
  double const left = r.leaves ? 1 : 0;
  double const of_h = rnn_projected(s) ? r.time : r.time + r.later() + left;
  return r.time * (r.T(r.gates()) + (r.lstm ? r.R(r.state()) : r.T(r.state()))) +
         of_h * r.T(r.state()) + (r.lstm ? left * r.R(r.state()) : 0);
}
constexpr double rnn_hand_on_read(LaunchSizes const& s) {
  return rnn_projected(s) ? rnn_projection_written(s) : 0;
}
constexpr double rnn_hand_on_written(LaunchSizes const& s) {
  Recurrent const r{s};
  double const of_0 = r.goes_on ? 0 : 1;
  double const left = r.leaves ? 1 : 0;
  return (rnn_projected(s) ? r.time + r.later() + of_0 + left : 1) * r.T(r.given());
}
constexpr double rnn_hand_on_calls(LaunchSizes const& s) {
  return rnn_one(s) * (rnn_projected(s) ? s.node.in[0] + (rnn_goes_on(s) ? 0 : 1) : 1);
}
constexpr double rnn_take_up_bytes(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.T(r.given()) + (r.lstm && s.chunk > 0 ? r.R(r.state()) : 0);
}
constexpr double rnn_take_up_calls(LaunchSizes const& s) {  // of a chunk's c, too
  return rnn_one(s) * (Recurrent{s}.lstm && s.chunk > 0 ? 2 : 1);
}
constexpr double rnn_row_gradient_read(LaunchSizes const& s) {
  Recurrent const r{s};
  double const of_h = rnn_projected(s) ? r.time * r.R(r.state())
                                       : r.after() * r.R(r.given()) + r.time * r.T(r.given());
  double const of_c =
      r.lstm ? r.R((r.time + r.begun() + r.after()) * r.state()) : r.T(2 * r.time * r.state());
  return r.time * r.T(r.gates()) + of_h + of_c;
}
constexpr double rnn_row_gradient_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.time * (r.T((r.lstm ? 1 : 2) * r.gates()) + r.R(r.state()));
}
constexpr double rnn_sum_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.after() * r.R(r.given()) + r.time * r.T(r.given());
}
constexpr double rnn_sum_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.time * r.T(r.given());
}

constexpr double rnn_bias_partial(LaunchSizes const& s) {
  Recurrent const r{s};
  return s.partial(1, static_cast<std::int64_t>(r.rows()), static_cast<int>(r.width));
}
constexpr double rnn_bias_read(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.r.biases * (r.T(r.rows() * r.width) + r.directions * rnn_bias_partial(s));
}
constexpr double rnn_bias_written(LaunchSizes const& s) {
  Recurrent const r{s};
  return r.r.biases * (r.R(r.width) + r.directions * rnn_bias_partial(s));
}

/// Sizes of a Bahdanau in a step.
struct AdditiveLaunches {
  LaunchSizes const& s;
  double batch = s.batch;
  double query = s.node.in[1];
  double hidden = s.weights / s.node.in[1];
  double channels = s.biases / hidden;
  double queries = s.batch * static_cast<double>(s.node.in[0]);
  double keys = (s.inputs - s.x) / (channels * s.scalar);  ///< rows of all samples
  double pairs = queries * keys / s.batch;

  [[nodiscard]] constexpr double context() const { return 2 * pairs * channels; }
  [[nodiscard]] constexpr double in() const {
    return 2 * hidden * (queries * query + keys * channels);
  }
};

inline constexpr LaunchRow launch_rows_of_sequences[] = {
    // clang-format off
    {"Lstm", KernelPass::forward, rnn_always, "cublasLtMatmul", rnn_input_read, rnn_input_written, rnn_input_products, rnn_one},
    {"Lstm", KernelPass::forward, rnn_hands_on, "each_kernel:HandOn", rnn_hand_on_read, rnn_hand_on_written, rnn_none, rnn_hand_on_calls},
    {"Lstm", KernelPass::forward, rnn_goes_on, "each_kernel:TakeUp", rnn_take_up_bytes, rnn_take_up_bytes, rnn_none, rnn_take_up_calls},
    {"Lstm", KernelPass::forward, rnn_always, "cublasLtMatmul", rnn_state_read, rnn_state_written, rnn_state_products, rnn_begun},
    {"Lstm", KernelPass::forward, rnn_always, "each_kernel:LstmRow", rnn_row_read, rnn_row_written, rnn_none, rnn_rows},
    {"Lstm", KernelPass::forward, rnn_projected, "cublasLtMatmul", rnn_projection_read, rnn_projection_written, rnn_projection_products, rnn_rows},
    {"Lstm", KernelPass::input_gradient, rnn_projected, "each_kernel:StateGradientSum", rnn_sum_read, rnn_sum_written, rnn_none, rnn_rows},
    {"Lstm", KernelPass::input_gradient, rnn_projected, "cublasLtMatmul", rnn_projection_back_read, rnn_projection_back_written, rnn_projection_products, rnn_rows},
    {"Lstm", KernelPass::input_gradient, rnn_always, "each_kernel:LstmRowGradient", rnn_row_gradient_read, rnn_row_gradient_written, rnn_none, rnn_rows},
    {"Lstm", KernelPass::input_gradient, rnn_always, "cublasLtMatmul", rnn_state_back_read, rnn_state_back_written, rnn_state_back_products, rnn_back},
    {"Lstm", KernelPass::input_gradient, rnn_always, "cublasLtMatmul", rnn_back_read, rnn_back_written, rnn_input_products, rnn_one},
    {"Lstm", KernelPass::weight_gradient, rnn_projected_back, "each_kernel:StateGradientSum", rnn_sum_read, rnn_sum_written, rnn_none, rnn_rows},
    {"Lstm", KernelPass::weight_gradient, rnn_projected_back, "cublasLtMatmul", rnn_projection_back_read, rnn_projection_back_written, rnn_projection_products, rnn_rows},
    {"Lstm", KernelPass::weight_gradient, rnn_goes_back, "each_kernel:LstmRowGradient", rnn_row_gradient_read, rnn_row_gradient_written, rnn_none, rnn_rows},
    {"Lstm", KernelPass::weight_gradient, rnn_goes_back, "cublasLtMatmul", rnn_state_back_read, rnn_state_back_written, rnn_state_back_products, rnn_back},
    {"Lstm", KernelPass::weight_gradient, rnn_always, "cublasLtMatmul", rnn_weight_read, rnn_weight_written, rnn_weight_products, rnn_weight_calls},
    {"Lstm", KernelPass::weight_gradient, rnn_biased, "column_sums_kernel:ColumnSumTerm", rnn_bias_read, rnn_bias_written, rnn_none, rnn_biases},

    {"Gru", KernelPass::forward, rnn_always, "cublasLtMatmul", rnn_input_read, rnn_input_written, rnn_input_products, rnn_one},
    {"Gru", KernelPass::forward, rnn_hands_on, "each_kernel:HandOn", rnn_hand_on_read, rnn_hand_on_written, rnn_none, rnn_hand_on_calls},
    {"Gru", KernelPass::forward, rnn_goes_on, "each_kernel:TakeUp", rnn_take_up_bytes, rnn_take_up_bytes, rnn_none, rnn_take_up_calls},
    {"Gru", KernelPass::forward, rnn_always, "cublasLtMatmul", rnn_state_read, rnn_state_written, rnn_state_products, rnn_begun},
    {"Gru", KernelPass::forward, rnn_always, "each_kernel:GruRow", rnn_row_read, rnn_row_written, rnn_none, rnn_rows},
    {"Gru", KernelPass::input_gradient, rnn_always, "each_kernel:GruRowGradient", rnn_row_gradient_read, rnn_row_gradient_written, rnn_none, rnn_rows},
    {"Gru", KernelPass::input_gradient, rnn_always, "cublasLtMatmul", rnn_state_back_read, rnn_state_back_written, rnn_state_back_products, rnn_back},
    {"Gru", KernelPass::input_gradient, rnn_always, "cublasLtMatmul", rnn_back_read, rnn_back_written, rnn_input_products, rnn_one},
    {"Gru", KernelPass::weight_gradient, rnn_goes_back, "each_kernel:GruRowGradient", rnn_row_gradient_read, rnn_row_gradient_written, rnn_none, rnn_rows},
    {"Gru", KernelPass::weight_gradient, rnn_goes_back, "cublasLtMatmul", rnn_state_back_read, rnn_state_back_written, rnn_state_back_products, rnn_back},
    {"Gru", KernelPass::weight_gradient, rnn_always, "cublasLtMatmul", rnn_weight_read, rnn_weight_written, rnn_weight_products, rnn_weight_calls},
    {"Gru", KernelPass::weight_gradient, rnn_biased, "column_sums_kernel:ColumnSumTerm", rnn_bias_read, rnn_bias_written, rnn_none, rnn_biases},

    {"Bahdanau", KernelPass::forward, rnn_always, "cublasLtMatmul", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.inputs + s.rounded(a.hidden * (a.query + a.channels)); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept((a.queries + a.keys) * a.hidden); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return a.in(); }, [](LaunchSizes const&) { return 2.0; }},
    {"Bahdanau", KernelPass::forward, rnn_always, "additive_scale_kernel", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.hidden); }, [](LaunchSizes const& s) { return s.kept(1); }, rnn_none},
    {"Bahdanau", KernelPass::forward, rnn_always, "additive_scores_kernel", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept((a.queries + a.keys + 2) * a.hidden); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.pairs); }, rnn_none},
    {"Bahdanau", KernelPass::forward, rnn_always, "additive_softmax_kernel", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.pairs); }, rnn_none},
    {"Bahdanau", KernelPass::forward, rnn_always, "cublasLtMatmul", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.pairs) + s.inputs - s.x; }, [](LaunchSizes const& s) { return s.y; }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return a.context(); }},
    {"Bahdanau", KernelPass::input_gradient, rnn_always, "cublasLtMatmul", [](LaunchSizes const& s) { return s.y + s.inputs - s.x; }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return a.context(); }},
    {"Bahdanau", KernelPass::input_gradient, rnn_always, "additive_softmax_gradient_kernel", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.pairs) + s.kept(a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.pairs); }, rnn_none},
    {"Bahdanau", KernelPass::input_gradient, rnn_always, "each_kernel:AdditiveQueryGradient", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept((a.queries + a.keys + 2) * a.hidden + a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.queries * a.hidden) + s.kept(a.queries * a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::input_gradient, rnn_always, "each_kernel:AdditiveKeyGradient", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept((a.queries + a.keys + 2) * a.hidden + a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.keys * a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::input_gradient, rnn_always, "column_sums_kernel:ColumnSumTerm", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.queries * a.hidden); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::input_gradient, rnn_always, "cublasLtMatmul", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded((a.queries + a.keys) * a.hidden + a.hidden * (a.query + a.channels) + a.pairs) + s.y + s.inputs - s.x; }, [](LaunchSizes const& s) { return s.x + 2 * (s.inputs - s.x); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return a.in() + a.context(); }, [](LaunchSizes const&) { return 3.0; }},
    {"Bahdanau", KernelPass::weight_gradient, rnn_goes_back, "cublasLtMatmul", [](LaunchSizes const& s) { return s.y + s.inputs - s.x; }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return a.context(); }},
    {"Bahdanau", KernelPass::weight_gradient, rnn_goes_back, "additive_softmax_gradient_kernel", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.pairs) + s.kept(a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.pairs); }, rnn_none},
    {"Bahdanau", KernelPass::weight_gradient, rnn_goes_back, "each_kernel:AdditiveQueryGradient", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept((a.queries + a.keys + 2) * a.hidden + a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.queries * a.hidden) + s.kept(a.queries * a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::weight_gradient, rnn_goes_back, "each_kernel:AdditiveKeyGradient", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept((a.queries + a.keys + 2) * a.hidden + a.pairs); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.keys * a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::weight_gradient, rnn_goes_back, "column_sums_kernel:ColumnSumTerm", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.queries * a.hidden); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::weight_gradient, rnn_always, "cublasLtMatmul", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.inputs + s.rounded((a.queries + a.keys) * a.hidden) + (s.accumulates ? s.kept(a.hidden * (a.query + a.channels)) : 0); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.hidden * (a.query + a.channels)); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return a.in(); }, [](LaunchSizes const&) { return 2.0; }},
    {"Bahdanau", KernelPass::weight_gradient, rnn_always, "column_sums_kernel:ColumnSumTerm", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.rounded(a.queries * a.hidden); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.hidden); }, rnn_none},
    {"Bahdanau", KernelPass::weight_gradient, rnn_always, "additive_scale_gradient_kernel", [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(2 * a.hidden); }, [](LaunchSizes const& s) { AdditiveLaunches const a{s}; return s.kept(a.hidden); }, rnn_none},
    // clang-format on
};

}  // namespace tandem::cuda::detail
