// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// step_account: the kernels of a training step on a GPU, with what each reads, writes and
/// computes, counted from the network alone: without a GPU, nvcc or the CUDA Toolkit.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/ops/cuda/launch_table.hpp>
#include <tandem/ops/cuda/update_chunks.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/runtime/cuda/cast_queue.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/strategy/memory/row_gradient_size.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem {

/// Kernels of one kind that a node's pass, or the engine, queues in a step.
struct AccountRow {
  int node = -1;            ///< in the network's graph; -1: the engine's own
  std::string place{};      ///< "2.0 Conv2d", or "batch", "loss", "update", "shared"
  std::string_view pass{};  ///< "forward", "input gradient", "weight gradient", "fork", or ""
  cuda::Launch launch{};
};

/// A training step of one GPU.
struct StepAccount {
  std::vector<AccountRow> row{};
  std::vector<std::string> unknown{};  ///< layers whose kernels the table does not have
  int samples = 0;                     ///< of this GPU

  [[nodiscard]] cuda::Launch total() const {
    cuda::Launch sum{.kernel = "total", .times = 0};
    for (AccountRow const& r : row) {
      sum.times += r.launch.times;
      sum.read += r.launch.read;
      sum.written += r.launch.written;
      sum.operations += r.launch.operations;
    }
    return sum;
  }
  /// Nodes of the step's graph: kernels, copies and fills.
  [[nodiscard]] std::int64_t kernels() const { return static_cast<std::int64_t>(total().times); }
  [[nodiscard]] double bytes() const { return total().read + total().written; }
};

struct AccountOptions {
  int batch = 128;  ///< global
  Optimizer optimizer = Sgd{};
  bool clips = false;  ///< by a norm
};

namespace detail {

/// A device's graph, as values: compiled once for all networks.
struct AccountGraph {
  GraphView graph;
  bool const* gives_input_gradient;
  std::int16_t const* closes;  ///< of a node: the bucket that is whole after it, or -1
  std::int64_t elements;       ///< of all parameters
  std::int64_t dense;          ///< of those that have a gradient in the flat array
  std::int64_t trained;        ///< of these and of those whose gradients are GradientRows
  std::vector<cuda::LaunchTraits> traits;
  int microbatches = 1;  ///< of a step
  int largest = 1;       ///< samples of the largest
  int replicas = 1;
};

/// Of a precision.
struct AccountPrecision {
  int scalar;
  int master;
  bool fp32;

  [[nodiscard]] bool mixed() const { return scalar != master; }
};

/// Adds what the nodes of a device's graph queue for its microbatches.
template <class = void>  // compiled where it is called, not by every include
class NodeAccounts {
 public:
  NodeAccounts(StepAccount& to, AccountGraph const& device, AccountPrecision const& precision)
      : to_{to}, device_{device}, graph_{device.graph}, precision_{precision} {
    std::int64_t most = 0;
    std::int64_t all = 0;
    for (int n = 0; n < graph_.nodes; ++n) {
      most = std::max(most, waiting_bytes(n));
      all += waiting_bytes(n);
    }
    casts_.bytes = std::max(most, std::min(all, std::int64_t{32} << 20));
  }

  void forward(int batch) {
    for (int n = 0; n < graph_.nodes; ++n) {
      if (graph_.node[n].computes()) {
        add(n, batch, false, cuda::KernelPass::forward);
      }
    }
  }
  void backward(int batch, bool accumulates) {
    for (int n = graph_.nodes - 1; n >= 0; --n) {
      Node const& node = graph_.node[n];
      if (!node.needs_gradient) {
        continue;
      }
      if (int const forks = uses(n); forks > 1 && !node.joined) {
        double const bytes = activation(n, batch);
        to_.row.push_back(
            {node.origin, place(node), "fork", {"map_kernel:SumBody", 1, forks * bytes, bytes, 0}});
      }
      if (device_.gives_input_gradient[n]) {
        add(n, batch, accumulates, cuda::KernelPass::input_gradient);
      }
      if (node.parameters > 0 && !node.frozen && node.computes()) {
        let_wait(n, accumulates);
        add(n, batch, accumulates, cuda::KernelPass::weight_gradient);
      }
      if (device_.closes[n] >= 0 && node.parameters > 0 && !node.frozen) {
        cast();
      }
    }
  }

  /// After the update the weights of siblings are put side by side.
  void pack() {
    cuda::CastQueue packing;
    double elements = 0;
    auto const flush = [&] {
      if (packing.entries > 0) {
        double const bytes = elements * precision_.scalar;
        to_.row.push_back({-1, "update", "", {"cast_many_kernel", 1, bytes, bytes, 0}});
      }
      packing.clear();
      elements = 0;
    };
    for (int n = 0; n < graph_.nodes; ++n) {
      if (!is_convolution(n) || graph_.node[n].width == 0) {
        continue;
      }
      int count = 0;
      each_sibling(n, [&](int) { ++count; });
      if (!packing.fits(count, 0, false)) {
        flush();
      }
      each_sibling(n, [&](int s) {
        packing.put(nullptr, nullptr, weights_of(s), false);
        elements += static_cast<double>(weights_of(s));
      });
    }
    flush();
  }

  [[nodiscard]] double activation(int n, int batch) const {
    return static_cast<double>(graph_.node[n].out.elements()) * batch * precision_.scalar;
  }

 private:
  static std::string place(Node const& node) {
    return to_string(node.path) + " " + std::string{node.name};
  }
  [[nodiscard]] int uses(int node) const {
    int count = 0;
    for (int n = 0; n < graph_.nodes; ++n) {
      for (int e = 0; e < graph_.node[n].edges && !graph_.node[n].merged; ++e) {
        count += graph_.source[graph_.node[n].first_edge + e] == node ? 1 : 0;
      }
    }
    return count;
  }

  /// f(node) for a convolution and those that it computes beside its own (a rewrite).
  template <class F>
  void each_sibling(int leader, F const& f) const {
    f(leader);
    for (int n = leader + 1; n < graph_.nodes && graph_.node[leader].width > 0; ++n) {
      if (graph_.node[n].merged && graph_.node[n].home == leader) {
        f(n);
      }
    }
  }
  [[nodiscard]] std::int64_t weights_of(int n) const {
    return graph_.parameter[graph_.node[n].first_parameter].parameter.shape.elements();
  }
  [[nodiscard]] bool is_convolution(int n) const {
    return graph_.node[n].computes() && tandem::is_convolution(graph_.node[n].layer);
  }

  // Gradients of convolutions in 16 bits wait until they are cast together: see CastQueue.
  [[nodiscard]] std::int64_t waiting_bytes(int n) const {
    std::int64_t elements = 0;
    if (precision_.mixed() && is_convolution(n)) {
      each_sibling(n, [&](int s) { elements += weights_of(s); });
    }
    return cuda::CastQueue::bytes_for(elements, static_cast<std::size_t>(precision_.scalar));
  }
  void let_wait(int n, bool adds) {
    std::int64_t const bytes = waiting_bytes(n);
    if (bytes > 0) {
      int count = 0;
      each_sibling(n, [&](int) { ++count; });
      if (!casts_.fits(count, bytes, adds)) {
        cast();
      }
      casts_.used += bytes;
      each_sibling(n, [&](int s) { casts_.put(nullptr, nullptr, weights_of(s), adds); });
    }
  }
  void cast() {
    double elements = 0;
    for (int i = 0; i < casts_.entries; ++i) {
      elements += static_cast<double>(casts_.entry[i].count);
    }
    if (casts_.entries > 0) {
      double const kept = elements * precision_.master;
      to_.row.push_back({-1,
                         "gradients",
                         "",
                         {"cast_many_kernel", 1,
                          elements * precision_.scalar + (casts_.adds ? kept : 0), kept, 0}});
    }
    casts_.clear();
  }

  void add(int n, int batch, bool accumulates, cuda::KernelPass pass) {
    Node const& node = graph_.node[n];
    if (!cuda::has_launches(node.name)) {
      std::string const name{node.name};
      for (std::string const& known : to_.unknown) {
        if (known == name) {
          return;
        }
      }
      to_.unknown.push_back(name);
      return;
    }
    std::string_view const name = pass == cuda::KernelPass::forward          ? "forward"
                                  : pass == cuda::KernelPass::input_gradient ? "input gradient"
                                                                             : "weight gradient";
    cuda::each_launch(sizes(n, batch, accumulates), pass, [&](cuda::Launch const& launch) {
      to_.row.push_back({node.origin, place(node), name, launch});
    });
  }

  [[nodiscard]] cuda::LaunchSizes sizes(int n, int batch, bool accumulates) const {
    Node const& node = graph_.node[n];
    auto const elements = [&](int p) {
      return p < node.parameters
                 ? static_cast<double>(
                       graph_.parameter[node.first_parameter + p].parameter.shape.elements())
                 : 0.0;
    };
    cuda::LaunchSizes s{.node = node,
                        .traits = device_.traits[static_cast<std::size_t>(n)],
                        .scalar = precision_.scalar,
                        .master = precision_.master,
                        .fp32 = precision_.fp32,
                        .accumulates = accumulates,
                        .gives_input_gradient = device_.gives_input_gradient[n],
                        .batch = batch,
                        .microbatches = device_.microbatches,
                        .largest = device_.largest,
                        .y = activation(n, batch),
                        .weights = elements(0),
                        .biases = elements(1)};
    for (int e = 0; e < node.edges; ++e) {
      double const bytes = activation(graph_.source[node.first_edge + e], batch);
      s.x += e == 0 ? bytes : 0;
      s.inputs += bytes;
    }
    if (is_convolution(n) && node.width > 0) {
      s.siblings = 0;
      s.y = s.weights = s.biases = 0;
      s.node.macs = 0;
      each_sibling(n, [&](int other) {
        Node const& sibling = graph_.node[other];
        ++s.siblings;
        s.y += activation(other, batch);
        s.weights += static_cast<double>(weights_of(other));
        s.biases += sibling.parameters > 1 ? sibling.out[0] : 0;
        s.node.macs += sibling.macs;
      });
    }
    // A norm that computes the sum before it reads that one's summands.
    if (node.sums >= 0) {
      s.node.joined = graph_.node[node.sums].joined;
    }
    for (int p = 0; p < node.parameters; ++p) {
      s.numbers += elements(p);
    }
    return s;
  }

  StepAccount& to_;
  AccountGraph const& device_;
  GraphView graph_;
  AccountPrecision precision_;
  cuda::CastQueue casts_{};
};

/// f(rows, all) for each parameter whose gradient is GradientRows: how many those of a replica and
/// of all are at most.
template <class F>
void each_row_gradient(AccountGraph const& device, F const& f) {
  for (int p = 0; p < device.graph.parameters; ++p) {
    Parameter const& own = device.graph.parameter[p].parameter;
    if (own.touched.sparse() && !device.graph.parameter[p].frozen) {
      f(own, RowGradientSize{own,
                             {.batch = device.largest,
                              .microbatches = device.microbatches,
                              .replicas = device.replicas},
                             1});
    }
  }
}

/// What follows the last gradient.
template <class = void>
void add_update(StepAccount& to, AccountGraph const& device, AccountPrecision const& precision,
                AccountOptions const& options) {
  auto const engine = [&](char const* place, std::string_view kernel, double read, double written) {
    to.row.push_back({-1, place, "", {kernel, 1, read, written, 0}});
  };
  GraphView const graph = device.graph;
  auto const kept = [&](std::int64_t elements) {
    return static_cast<double>(elements * precision.master);
  };
  for (int p = 0; p < graph.parameters; ++p) {
    if (graph.parameter[p].shared >= 0 && !graph.parameter[p].frozen) {
      double const bytes = kept(graph.parameter[p].parameter.shape.elements());
      bool const bulk = bytes >= (1 << 20);
      engine("shared", bulk ? "cub::DeviceTransform::Transform" : "map_kernel:Plus", 2 * bytes,
             bytes);
      engine("shared", "copy", bytes, bytes);
    }
  }
  each_row_gradient(device, [&](Parameter const&, RowGradientSize const& rows) {
    if (device.replicas > 1) {
      auto const numbers = static_cast<double>(4 * rows.most * device.replicas);
      engine("gradients", "each_kernel:RowKeys", numbers, 2 * numbers);
      engine("gradients", "cub::DeviceRadixSort", 2 * numbers, 2 * numbers);
      engine("gradients", "cub::DeviceSelect", 2 * numbers, 2 * numbers);
      engine("gradients", "each_kernel:OpenRows", numbers, numbers);
      engine("gradients", "sum_rows_kernel", kept(rows.most * device.replicas * rows.width),
             kept(rows.all * rows.width));
    }
  });
  if (options.clips) {
    engine("update", "gradient_squares_kernel", kept(device.dense), 0);
    each_row_gradient(device, [&](Parameter const& p, RowGradientSize const& rows) {
      std::int64_t const chunks = (p.shape.elements() - 1) / cuda::update_chunk + 1;
      auto const squares = static_cast<double>(chunks * static_cast<std::int64_t>(sizeof(double)));
      engine("update", "memset", 0, squares);
      engine("update", "row_squares_kernel", kept(rows.all * rows.width), squares);
    });
    engine("update", "join_squares_kernel", 0, 0);
  }
  engine("update", "finish_step_kernel", 0, 0);
  int const states = states_of(options.optimizer);
  auto const update = [&](std::string_view kernel, std::int64_t elements) {
    double const rounded = precision.mixed() ? static_cast<double>(elements * precision.scalar) : 0;
    engine("update", kernel, (2 + states) * kept(elements),
           (1 + states) * kept(elements) + rounded);
  };
  update("apply_update_kernel", device.elements - (device.trained - device.dense));
  each_row_gradient(device, [&](Parameter const&, RowGradientSize const& rows) {
    update("update_rows_kernel", rows.all * rows.width);
  });
}

/// The batch, and the passes of all microbatches.
/// @param sizes  of the device's microbatches
template <class = void>
void add_passes(StepAccount& to, AccountGraph const& device, AccountPrecision const& precision,
                std::vector<int> const& sizes, bool alone) {
  GraphView const graph = device.graph;
  auto const engine = [&](char const* place, std::string_view kernel, double read, double written) {
    to.row.push_back({-1, place, "", {kernel, 1, read, written, 0}});
  };
  int input = 0;
  while (graph.node[input].kind != NodeKind::input) {
    ++input;
  }
  auto const numbers = static_cast<double>(graph.node[input].out.elements() * to.samples);
  engine("batch", "take_batch_kernel", 4 * numbers,
         (graph.node[input].limit > 0 ? 4 : precision.scalar) * numbers);
  if (!alone) {
    engine("loss", "memset", 0, 16);
  }
  NodeAccounts<> nodes{to, device, precision};
  bool accumulates = false;
  for (int const batch : sizes) {
    if (batch == 0) {
      continue;
    }
    nodes.forward(batch);
    double const outputs = nodes.activation(graph.result, batch);
    if (graph.node[graph.result].criterion) {
      engine("loss", "criterion_sum_kernel", outputs, 8);
      engine("loss", "criterion_sum_kernel", outputs, 8);
    } else {
      engine("loss", "softmax_cross_entropy_kernel", outputs + 4.0 * batch, 8.0 * batch);
      engine("loss", "ordered_sum_kernel", 8.0 * batch, 8);
      engine("loss", "top_k_kernel", outputs + 4.0 * batch, 8.0 * batch);
      engine("loss", "ordered_sum_kernel", 8.0 * batch, 8);
      engine("loss", "softmax_cross_entropy_gradient_kernel", outputs + 4.0 * batch, outputs);
    }
    nodes.backward(batch, accumulates);
    accumulates = true;
  }
}

template <class Device>
AccountGraph account_graph() {
  static constexpr auto const& graph = Device::graph;
  AccountGraph result{.graph = graph,
                      .gives_input_gradient = Device::gives_input_gradient.of,
                      .closes = Device::layout.closes,
                      .elements = Device::layout.elements,
                      .dense = Device::layout.dense,
                      .trained = Device::layout.trained,
                      .traits = {}};
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (result.traits.push_back([] {
      if constexpr (graph.node[I].kind == NodeKind::layer) {
        return cuda::launch_traits<Leaf<typename Device::Network, graph.node[I].leaf>>(
            graph.node[I].in);
      } else {
        return cuda::LaunchTraits{};
      }
    }()),
     ...);
  }
  (std::make_integer_sequence<int, graph.nodes>{});
  return result;
}

/// Of the first replica.
template <class Whole>
StepAccount step_account_of(AccountPrecision const& precision, AccountOptions const& options) {
  using Device = typename Whole::template Device<0>;
  expects(options.batch >= 1, "step_account({.batch = ...}): give 1 sample or more");
  StepAccount account;
  std::vector<int> sizes;
  for (int m = 0; m < Whole::batching.microbatches; ++m) {
    sizes.push_back(microbatch_size(options.batch, m, Whole::batching));
    account.samples += sizes.back();
  }
  AccountGraph device = account_graph<Device>();
  device.microbatches = Whole::batching.microbatches;
  device.largest = *std::max_element(sizes.begin(), sizes.end());
  device.replicas = Whole::batching.replicas;
  add_passes(account, device, precision, sizes, Whole::ranks == 1);
  add_update(account, device, precision, options);
  NodeAccounts<>{account, device, precision}.pack();
  return account;
}

}  // namespace detail

/// The kernels of one training step of @p Net on each GPU of @p S, a strategy without stages and
/// without recomputation, with its usual loss and accuracy, in BasicCuda<CuDnn, Precision>: of the
/// first replica.
///
/// As launch_table.hpp says. Collectives are not in it, nor what runs once and not in each step.
/// Optimizers of one's own, and averages of weights, queue more.
/// @tparam R  rewrites of the graph, for comparisons
/// @throws ContractError  .batch < 1
template <class Net, class S = SingleDevice<>, class Precision = Tf32,
          Rewrites R = BasicCuda<CuDnn, Precision>::rewrites>
[[nodiscard]] StepAccount step_account(AccountOptions const& options = {}) {
  static_assert(S::devices == 1 && S::checkpoint.every == 0,
                "step_account<Net, Strategy>: counts strategies without stages and without "
                "Checkpoint; take SingleDevice<...> or DataParallel<N, ...>");
  constexpr int scalar = static_cast<int>(sizeof(typename Precision::Scalar));
  constexpr int master = static_cast<int>(sizeof(typename Precision::Master));
  static_assert(scalar <= 4,
                "step_account<Net, Strategy, Precision>: cuDNN computes in 32 bits or less");
  return detail::step_account_of<Program<Net, S, master, R>>(
      {scalar, master, std::is_same_v<Precision, Fp32>}, options);
}

}  // namespace tandem
