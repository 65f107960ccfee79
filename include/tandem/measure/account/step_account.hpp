// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// step_account: the kernels of a training step on a GPU, with what each reads, writes and
/// computes, counted from the types alone: without a GPU, nvcc or the CUDA Toolkit.

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/exact_sum.hpp>
#include <tandem/engine/step/microbatches.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/measure/account/account.hpp>
#include <tandem/measure/account/account_device.hpp>
#include <tandem/measure/account/gradient_accounts.hpp>
#include <tandem/measure/account/message_accounts.hpp>
#include <tandem/measure/account/node_accounts.hpp>
#include <tandem/measure/account/row_gradient_accounts.hpp>
#include <tandem/measure/account/slot_accounts.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/strategy/fits.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem {

namespace detail {

/// Follows a device's whole row, as a Rank does.
TANDEM_ONCE void follow_row(StepAccount& to, AccountDevice const& device,
                            AccountPrecision const& precision, AccountOptions const& options);

/// Of the first replica.
template <class Whole>
StepAccount step_account_of(AccountPrecision const& precision, AccountOptions const& options) {
  static_assert(
      ArgumentIs<Argument::named_replicas, !takes_any_replicas<typename Whole::Strategy>>::value);
  expects(options.batch >= 1, "step_account({.batch = ...}): give 1 sample or more");
  expects(options.device >= 0 && options.device < Whole::devices,
          "step_account({.device = ...}): give a device of the replica, counted from 0");
  expects(options.slice >= 0 && options.slice < Whole::slices,
          "step_account({.slice = ...}): give one of the GPUs that share layers, counted from 0");
  StepAccount account{.device = options.device,
                      .devices = Whole::devices,
                      .slices = Whole::slices,
                      .tiles = Whole::has_tiles};
  [&]<int... D>(std::integer_sequence<int, D...>) {
    auto const follow = [&](AccountDevice device) {
      device.largest = largest_microbatch(options.batch, Whole::batching);
      device.slice = options.slice;
      follow_row(account, device, precision, options);
    };
    static_cast<void>(((D == options.device &&
                        (follow(account_device<typename Whole::template Device<D>>()), true)) ||
                       ...));
  }
  (std::make_integer_sequence<int, Whole::devices>{});
  return account;
}

}  // namespace detail

/// The kernels of one training step of @p Net on a GPU of @p S, with its usual loss and accuracy,
/// in BasicCuda<CuDnn, Precision> through NCCL: of device .device of the first replica, each pass
/// and message in the order of its row, and what Checkpoint computes again; with TensorParallel of
/// rank .slice of those that share the device's part, whose sums are passes of "Reduce" and "Copy",
/// and of what SequenceRows has in place of these; with SpatialParallel of tile .slice, whose
/// messages are passes of "Cut", "Halo" and "Gather"; with Chunks each chunk of a microbatch.
///
/// As launch_table.hpp says. What NCCL's calls read and write is counted, not how it carries it;
/// what runs once and not in each step is not. StepAccount::unknown names what else is left out.
/// Optimizers of one's own, and averages of weights, queue more.
/// Cost: linear in the actions of the row times the nodes of their stages.
/// @tparam S  any strategy but an asynchronous pipeline
/// @tparam R  rewrites of the graph, for comparisons
/// @throws ContractError  .batch < 1, or there is no such device or slice
template <class Net, class S = SingleDevice<>, class Precision = Tf32,
          Rewrites R = BasicCuda<CuDnn, Precision>::rewrites>
[[nodiscard]] StepAccount step_account(AccountOptions const& options = {}) {
  constexpr int scalar = static_cast<int>(sizeof(typename Precision::Scalar));
  constexpr int master = static_cast<int>(sizeof(typename Precision::Master));
  static_assert(!detail::asynchrony_of<S>().on(),
                "step_account<Net, Strategy>: the devices of an asynchronous pipeline are at "
                "different steps; take a synchronous schedule, such as OneFOneB");
  static_assert(scalar <= 4,
                "step_account<Net, Strategy, Precision>: cuDNN computes in 32 bits or less");
  return detail::step_account_of<Program<Net, S, master, R>>(
      {scalar, master, std::is_same_v<Precision, Fp32>}, options);
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Follows a device's whole row, as a Rank does.
class RowAccount {
 public:
  RowAccount(StepAccount& to, AccountDevice const& device, AccountPrecision const& precision,
             AccountOptions const& options)
      : to_{to},
        device_{device},
        graph_{device.graph},
        precision_{precision},
        options_{options},
        microbatches_{device.plan.batching, 0, device.copies},
        own_sums_{16.0 * device.plan.batching.passes()},
        slots_{to, device, precision},
        nodes_{to, device, precision, slots_},
        messages_{to, device, precision},
        gradients_{to, device, precision, options.clips},
        rows_{to, device, precision} {
    microbatches_.split(options.batch);
    to_.samples = static_cast<int>(microbatches_.end() - microbatches_.begin());
  }

  void follow() {
    if (device_.keeps_two) {
      to_.leave_out("the exchange of two models' weights (AverageWeights)");
    }
    for (cuda::LaunchTraits const& own : device_.traits) {
      if (own.sampled > 0) {
        to_.leave_out("a sampled softmax (Vocabulary with Sampled)");
      }
    }
    take_batch();
    begin_states();
    if (device_.ranks > 1) {
      to_.add("loss", "", "memset", 0, own_sums_);
    }
    for (Action const& action : device_.plan.training) {
      follow(action);
    }
  }

 private:
  static constexpr double sums = 2 * 8.0 * exact_lanes;  // bytes of the loss and of one metric

  struct Host {
    RowAccount& row;
    int leaf;

    void gathered(int n, int batch) const { row.messages_.gather(n, batch); }
    void closed(int bucket) const { row.gradients_.ready(bucket, leaf); }
  };

  void follow(Action action) {
    switch (action.kind) {
      case ActionKind::forward:
        forward(action);
        break;
      case ActionKind::backward:
        backward(action, {});
        break;
      case ActionKind::input_gradient:
        backward(action, {.weights = false});
        break;
      case ActionKind::weight_gradient:
        backward(action, {.inputs = false});
        break;
      case ActionKind::reduce_gradient:
        gradients_.await(action.index);
        if (action.index == 0) {
          rows_.reduce();
        }
        break;
      case ActionKind::begin_loss:
        if (device_.slice == 0) {
          to_.add("loss", "", "each_kernel:SpreadSums", own_sums_, sums);
        } else {  // the first gives away the loss of all
          to_.add("loss", "", "memset", 0, sums);
        }
        if (joins_checks()) {
          check_gradients();
          to_.add("update", "", "each_kernel:SpoilSum", parameter_sums(), 0);
        }
        to_.add("loss", "", "ncclAllReduce", sums, sums);
        break;
      case ActionKind::reduce_norm:
        gradients_.share();
        if (options_.clips) {
          add_squares();
          to_.add("update", "", "ncclAllReduce", parameter_sums(), parameter_sums());
        }
        break;
      case ActionKind::update:
        gradients_.share();
        update(action.stage);
        break;
      case ActionKind::send_forward:
      case ActionKind::receive_forward:
      case ActionKind::send_backward:
      case ActionKind::receive_backward:
        if (microbatches_.size(action.index) > 0) {
          messages_.run(action, microbatches_.size(action.index));
        }
        break;
      default:
        break;
    }
  }

  [[nodiscard]] LocalStage const& stage(int id) const {
    std::size_t local = 0;
    while (device_.stages[local].id != id) {
      ++local;
    }
    return device_.stages[local];
  }
  [[nodiscard]] bool criterion() const { return graph_.node[graph_.result].criterion; }

  void forward(Action action) {
    LocalStage const& own = stage(action.stage);
    Microbatch const& microbatch = microbatches_[action.index];
    int const batch = microbatch.size;
    if (batch == 0) {
      return;
    }
    slots_.begin_pass();
    nodes_.forward(own.first, own.last, microbatch);
    if (!own.has_result) {
      return;
    }
    double const outputs = nodes_.activation(graph_.result, batch);
    if (criterion()) {
      to_.add("loss", "", "criterion_sum_kernel", 2 * outputs, 16, 2);
    } else {
      to_.add("loss", "", "softmax_cross_entropy_kernel", outputs + 4.0 * batch, 8.0 * batch);
      to_.add("loss", "", "ordered_sum_kernel", 16.0 * batch, 16, 2);
      to_.add("loss", "", "top_k_kernel", outputs + 4.0 * batch, 8.0 * batch);
    }
  }

  void backward(Action action, AccountPart part) {
    LocalStage const& own = stage(action.stage);
    Microbatch const& microbatch = microbatches_[action.index];
    if (microbatch.size == 0 || !own.needs_gradient) {
      return;
    }
    if (own.has_result && part.inputs && !criterion()) {
      double const outputs = nodes_.activation(graph_.result, microbatch.size);
      to_.add("loss", "", "softmax_cross_entropy_gradient_kernel", outputs + 4.0 * microbatch.size,
              outputs);
    }
    if (part.weights) {
      gradients_.open(own.id);
    }
    slots_.begin_pass();
    nodes_.backward(own, microbatch, part, Host{*this, microbatch.finishes});
  }

  // The device's samples, and targets where it has the result; of samples whose size keeps
  // microbatches apart, each by itself.
  void take_batch() {
    int inputs = 0;
    for (int n = 0; n < graph_.nodes; ++n) {
      Node const& node = graph_.node[n];
      if (node.kind != NodeKind::input) {
        continue;
      }
      ++inputs;
      bool const packed =
          node.limit > 0 || (!node.out.timed && node.out.elements() * precision_.scalar % 16 == 0);
      auto const numbers =
          static_cast<double>(node.out.elements() * node.sequence.chunks * to_.samples);
      int const kernels = packed ? 1 : device_.plan.batching.microbatches + (graph_.result >= 0);
      to_.add("batch", "", "take_batch_kernel", 4 * numbers,
              (node.limit > 0 ? 4 : precision_.scalar) * numbers, kernels);
    }
    if (inputs == 0 && graph_.result >= 0) {
      to_.add("batch", "", "take_batch_kernel", 4.0 * to_.samples, 4.0 * to_.samples);
    }
  }

  // Of layers that are Stateful, for as many samples as there may be.
  void begin_states() {
    std::int64_t bytes = 0;
    for (int n = 0; n < graph_.nodes; ++n) {
      bytes += graph_.node[n].sequence.carried.bytes(precision_.master, precision_.scalar);
    }
    auto const all =
        static_cast<double>(bytes * device_.largest * device_.plan.batching.microbatches);
    if (all > 0) {
      to_.add("states", "", "each_kernel:BeginStates", all, all);
    }
  }

  void add_squares() {
    gradients_.square();
    rows_.square();
    to_.add("update", "", "join_squares_kernel", 0, 0);
  }

  [[nodiscard]] double parameter_sums() const {
    return 8.0 * static_cast<double>(device_.parameter_squares);
  }
  [[nodiscard]] bool joins_checks() const {
    return checks() && (!device_.alone || device_.shares > 1);
  }
  [[nodiscard]] bool checks() const { return !options_.clips && !device_.plan.updates_early; }
  // In place of square sums, whether they are finite.
  void check_gradients() {
    to_.add("update", "", "check_gradients_kernel",
            static_cast<double>(device_.dense * precision_.master) / device_.shares, 0);
    rows_.each_update([&](std::int64_t numbers) {
      to_.add("update", "", "each_kernel:CheckRows",
              static_cast<double>(numbers * precision_.master), 0);
    });
  }

  void add_update(std::string_view kernel, std::int64_t elements) {
    int const states = states_of(options_.optimizer);
    auto const kept = static_cast<double>(elements * precision_.master);
    auto const rounded = static_cast<double>(elements * precision_.scalar);
    to_.add("update", "", kernel, (2 + states) * kept,
            (1 + states) * kept + (precision_.mixed() && !device_.deals_parameters ? rounded : 0));
  }

  // Of all stages, or, of two models, of one.
  void update(int id) {
    if (!std::exchange(finished_, true)) {
      if (options_.clips && device_.alone) {
        add_squares();
      } else if (checks() && !joins_checks()) {
        check_gradients();
      }
      to_.add("update", "", "finish_step_kernel", 0, 0);
    }
    std::int64_t elements = device_.elements - (device_.trained - device_.dense);
    if (device_.keeps_two) {
      elements = 0;
      for (int p = 0; p < graph_.parameters; ++p) {
        GraphParameter const& own = graph_.parameter[p];
        elements += graph_.node[own.node].stage == id ? own.parameter.shape.elements() : 0;
      }
    }
    add_update("apply_update_kernel", elements / device_.shares);
    rows_.each_update([&](std::int64_t numbers) { add_update("update_rows_kernel", numbers); });
    gradients_.gather();
    if (device_.shares > 1 && precision_.mixed() && !device_.deals_parameters) {
      auto const all = static_cast<double>(device_.elements);
      bool const is_bulk = all * precision_.scalar >= (1 << 20);
      to_.add("update", "", is_bulk ? "cub::DeviceTransform::Transform" : "map_kernel:AsItIs",
              all * precision_.master, all * precision_.scalar);
    }
    for (LocalStage const& own : device_.stages) {
      if (!device_.keeps_two || own.id == id) {
        nodes_.pack(own.first, own.last);
      }
    }
  }

  StepAccount& to_;
  AccountDevice const& device_;
  GraphView graph_;
  AccountPrecision precision_;
  AccountOptions const& options_;
  RankMicrobatches microbatches_;
  double own_sums_;  // bytes of the losses and metrics of the rank's microbatches
  SlotAccounts slots_;
  NodeAccounts nodes_;
  MessageAccounts messages_;
  GradientAccounts gradients_;
  RowGradientAccounts rows_;
  bool finished_ = false;
};

TANDEM_ONCE void follow_row(StepAccount& to, AccountDevice const& device,
                            AccountPrecision const& precision, AccountOptions const& options) {
  RowAccount{to, device, precision, options}.follow();
}

}  // namespace tandem::detail

#endif
