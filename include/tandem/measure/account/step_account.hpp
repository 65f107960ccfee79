// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// step_account: the kernels of a training step on a GPU, with what each reads, writes and
/// computes, counted from the network alone: without a GPU, nvcc or the CUDA Toolkit.

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/graph/leaves.hpp>
#include <tandem/ops/cuda/launch_table.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/runtime/cuda/backend.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
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

/// What a layer's type says that its node does not.
template <class L>
cuda::LaunchTraits launch_traits(Shape in) {
  cuda::LaunchTraits traits;
  if constexpr (requires { L::heads, L::key_heads, L::dropout; }) {
    traits.heads = L::heads;
    traits.key_heads = L::key_heads;
    traits.dropout = L::dropout;
  }
  if constexpr (requires { L::options.chunk_rows; }) {
    traits.chunk_rows = L::options.chunk_rows;
  }
  if constexpr (requires { cell_fits_byte(L::geometry(in).window); }) {
    traits.cell_bytes = cell_fits_byte(L::geometry(in).window) ? 1 : 4;
  }
  return traits;
}

/// Adds what the nodes of a device's graph queue for its microbatches.
template <class Device, class Precision>
class NodeAccounts {
  static constexpr auto const& graph = Device::graph;
  static constexpr int nodes = graph.nodes;
  using Net = typename Device::Network;

 public:
  explicit NodeAccounts(StepAccount& to) : to_{to} { find_traits(); }

  void forward(int batch) {
    for (int n = 0; n < nodes; ++n) {
      if (graph.node[n].computes()) {
        add(n, batch, false, cuda::KernelPass::forward);
      }
    }
  }
  void backward(int batch, bool accumulates) {
    for (int n = nodes - 1; n >= 0; --n) {
      Node const& node = graph.node[n];
      if (!node.needs_gradient) {
        continue;
      }
      if (int const forks = uses(n); forks > 1 && !node.joined) {
        double const bytes = activation(n, batch);
        to_.row.push_back(
            {node.origin, place(node), "fork", {"map_kernel:SumBody", 1, forks * bytes, bytes, 0}});
      }
      if (gives_input_gradient(graph, n)) {
        add(n, batch, accumulates, cuda::KernelPass::input_gradient);
      }
      if (node.parameters > 0 && !node.frozen && node.computes()) {
        add(n, batch, accumulates, cuda::KernelPass::weight_gradient);
      }
    }
  }

  [[nodiscard]] static double activation(int n, int batch) {
    return static_cast<double>(graph.node[n].out.elements()) * batch *
           sizeof(typename Precision::Scalar);
  }

 private:
  static std::string place(Node const& node) {
    return to_string(node.path) + " " + std::string{node.name};
  }
  static int uses(int node) {
    int count = 0;
    for (int n = 0; n < nodes; ++n) {
      for (int e = 0; e < graph.node[n].edges && !graph.node[n].merged; ++e) {
        count += graph.source[graph.node[n].first_edge + e] == node ? 1 : 0;
      }
    }
    return count;
  }

  void find_traits() {
    [&]<int... I>(std::integer_sequence<int, I...>) { (find_trait<I>(), ...); }
    (std::make_integer_sequence<int, nodes>{});
  }
  template <int I>
  void find_trait() {
    if constexpr (graph.node[I].kind == NodeKind::layer) {
      traits_[static_cast<std::size_t>(I)] =
          launch_traits<Leaf<Net, graph.node[I].leaf>>(graph.node[I].in);
    }
  }

  void add(int n, int batch, bool accumulates, cuda::KernelPass pass) {
    Node const& node = graph.node[n];
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
    Node const& node = graph.node[n];
    auto const elements = [&](int p) {
      return p < node.parameters
                 ? static_cast<double>(
                       graph.parameter[node.first_parameter + p].parameter.shape.elements())
                 : 0.0;
    };
    cuda::LaunchSizes s{.node = node,
                        .traits = traits_[static_cast<std::size_t>(n)],
                        .scalar = sizeof(typename Precision::Scalar),
                        .master = sizeof(typename Precision::Master),
                        .fp32 = std::is_same_v<Precision, Fp32>,
                        .accumulates = accumulates,
                        .gives_input_gradient = gives_input_gradient(graph, n),
                        .batch = batch,
                        .y = activation(n, batch),
                        .weights = elements(0),
                        .biases = elements(1)};
    for (int e = 0; e < node.edges; ++e) {
      double const bytes = activation(graph.source[node.first_edge + e], batch);
      s.x += e == 0 ? bytes : 0;
      s.inputs += bytes;
    }
    // A norm that computes the sum before it reads that one's summands.
    if (node.sums >= 0) {
      s.node.joined = graph.node[node.sums].joined;
    }
    for (int p = 0; p < node.parameters; ++p) {
      s.numbers += elements(p);
    }
    return s;
  }

  StepAccount& to_;
  std::vector<cuda::LaunchTraits> traits_ =
      std::vector<cuda::LaunchTraits>(static_cast<std::size_t>(nodes));
};

/// What the engine itself queues, for all microbatches together.
template <class Device, class Precision>
void add_update(StepAccount& to, AccountOptions const& options) {
  using P = typename Precision::Master;
  using T = typename Precision::Scalar;
  auto const engine = [&](char const* place, std::string_view kernel, double read, double written) {
    to.row.push_back({-1, place, "", {kernel, 1, read, written, 0}});
  };
  auto const all = static_cast<double>(Device::layout.elements);
  auto const trained = static_cast<double>(Device::layout.trained);
  for (int owner = 0; owner < Device::graph.parameters; ++owner) {
    for (int p = owner + 1; p < Device::graph.parameters; ++p) {
      if (Device::graph.parameter[p].owner() == Device::graph.parameter[owner].origin &&
          !Device::graph.parameter[p].frozen) {
        double const bytes =
            static_cast<double>(Device::graph.parameter[p].parameter.shape.elements()) * sizeof(P);
        bool const bulk = bytes >= (1 << 20);
        engine("shared", bulk ? "cub::DeviceTransform::Transform" : "map_kernel:Plus", 2 * bytes,
               bytes);
        engine("shared", "copy", bytes, bytes);
      }
    }
  }
  if (options.clips) {
    engine("update", "gradient_squares_kernel", trained * sizeof(P), 0);
    engine("update", "join_squares_kernel", 0, 0);
  }
  engine("update", "finish_step_kernel", 0, 0);
  int const states = states_of(options.optimizer);
  engine("update", "apply_update_kernel", (2 + states) * all * sizeof(P),
         (1 + states) * all * sizeof(P) +
             (std::is_same_v<T, P> ? 0 : all * static_cast<double>(sizeof(T))));
}

}  // namespace detail

/// The kernels of one training step of @p Net on each GPU of @p S, a strategy without stages, with
/// its usual loss and accuracy, in BasicCuda<CuDnn, Precision>: of the first replica.
///
/// Beside what launch_table.hpp says: collectives are not in it, nor what runs once and not in each
/// step. Optimizers of one's own, and averages of weights, queue more.
/// @throws ContractError  .batch < 1
template <class Net, class S = SingleDevice<>, class Precision = Tf32,
          Rewrites R = BasicCuda<CuDnn, Precision>::rewrites>
[[nodiscard]] StepAccount step_account(AccountOptions const& options = {}) {
  static_assert(S::devices == 1,
                "step_account<Net, Strategy>: counts strategies without stages; take "
                "SingleDevice<...> or DataParallel<N, ...>");
  static_assert(sizeof(typename Precision::Scalar) <= 4,
                "step_account<Net, Strategy, Precision>: cuDNN computes in 32 bits or less");
  using Whole = Program<Net, S, static_cast<int>(sizeof(typename Precision::Master)), R>;
  using Device = typename Whole::template Device<0>;
  expects(options.batch >= 1, "step_account({.batch = ...}): give 1 sample or more");
  constexpr auto const& network = Whole::network;
  constexpr bool criterion = network.output().criterion;
  constexpr bool indices = network.node[0].limit > 0;
  StepAccount account;
  auto const engine = [&](char const* place, std::string_view kernel, double read, double written) {
    account.row.push_back({-1, place, "", {kernel, 1, read, written, 0}});
  };
  for (int m = 0; m < Whole::batching.microbatches; ++m) {
    account.samples += microbatch_size(options.batch, m, Whole::batching);
  }
  double const numbers = static_cast<double>(network.node[0].out.elements()) * account.samples;
  double const stored = indices ? 4 : sizeof(typename Precision::Scalar);
  engine("batch", "take_batch_kernel", 4 * numbers, stored * numbers);
  if (S::ranks > 1) {
    engine("loss", "memset", 0, 16);
  }
  detail::NodeAccounts<Device, Precision> nodes{account};
  bool accumulates = false;
  for (int m = 0; m < Whole::batching.microbatches; ++m) {
    int const batch = microbatch_size(options.batch, m, Whole::batching);
    if (batch == 0) {
      continue;
    }
    double const outputs = nodes.activation(Device::graph.result, batch);
    nodes.forward(batch);
    if (criterion) {
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
  detail::add_update<Device, Precision>(account, options);
  return account;
}

}  // namespace tandem
