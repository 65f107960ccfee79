// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankMemory: the arenas of one rank, allocated once, and the tables of pointers into them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/engine/memory/operand_tables.hpp>
#include <tandem/engine/memory/parameter_memory.hpp>
#include <tandem/engine/prepare/arenas.hpp>
#include <tandem/engine/prepare/gradient_plan.hpp>
#include <tandem/engine/prepare/memory_plan.hpp>
#include <tandem/engine/prepare/memory_report.hpp>
#include <tandem/engine/prepare/rank_plan.hpp>
#include <tandem/engine/step/source.hpp>
#include <tandem/graph/graph_view.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/schedule/rules/weight_places.hpp>

namespace tandem {

/// What is referred to outlives the call. T: of activations; P: of parameters.
template <class T, class P>
struct RankMemoryView {
  GraphView graph;
  std::vector<OpNeeds> const& needs;
  PlanTask const& task;
  MemoryPlan const& plan;
  ArenaBases bases;
  OperandTables<T, P> const& tables;
  RankPlan const& rows;
  WeightPlaces const* places =
      nullptr;  ///< of a rank of an asynchronous pipeline, which has no rows
};

/// Every rank calls it at the end of its constructor, which throws what it throws. Null unless a
/// test sets it before it makes ranks.
template <class T, class P>
inline void (*on_rank_memory)(RankMemoryView<T, P> const&) = nullptr;

/// Node by node, and of each sample by sample. Nothing is allocated before the first step that
/// carries; gather() has two arrays, of which it fills the other.
template <class Backend>
class CarriedRows {
 public:
  using Device = typename Backend::Device;
  using Buffer = typename Backend::Buffer;

  /// @param bytes  of each node, what it carries of a sample
  TANDEM_COLD explicit CarriedRows(std::vector<std::int64_t> bytes) : bytes_{std::move(bytes)} {}

  /// Sequences of @p samples begin anew: there is room for what they hand on.
  void begin(Device& device, std::int64_t samples) { make_room(device, now_, samples); }

  /// Sample b is from now on what sample @p parents[b] was; zeros where that is -1.
  void gather(Device& device, std::span<std::int32_t const> parents) {
    if (is_identity(parents)) {
      return;
    }
    auto const samples = static_cast<std::int64_t>(parents.size());
    make_room(device, now_, 1);  // none yet where the rank had no sample: nobody's parent is here
    make_room(device, then_, samples);
    for (std::size_t n = 0; n < bytes_.size(); ++n) {
      if (bytes_[n] > 0) {
        gather_rows(device, at(now_, n), at(then_, n), parents.data(), samples, bytes_[n]);
      }
    }
    std::swap(now_, then_);
  }

  /// That of sample @p first of node @p n, behind which the others stand; null if it has none.
  [[nodiscard]] std::byte* at(int n, std::int64_t first) const {
    auto const node = static_cast<std::size_t>(n);
    return bytes_[node] > 0 && now_.samples > 0 ? at(now_, node) + first * bytes_[node] : nullptr;
  }

  [[nodiscard]] std::int64_t bytes() const { return size(now_) + size(then_); }

 private:
  struct Array {
    std::unique_ptr<Buffer> memory{};
    std::int64_t samples = 0;
    std::vector<std::int64_t> first{};  // of each node
  };

  static std::int64_t size(Array const& array) {
    return array.memory != nullptr ? static_cast<std::int64_t>(array.memory->bytes()) : 0;
  }
  static std::byte* at(Array const& array, std::size_t node) {
    return array.memory->data() + array.first[node];
  }
  TANDEM_COLD void make_room(Device& device, Array& array, std::int64_t samples) const {
    if (samples <= array.samples) {
      return;
    }
    array = {};  // before there is another
    std::int64_t bytes = 0;
    for (std::int64_t const own : bytes_) {
      array.first.push_back(bytes);
      bytes += detail::aligned(own * samples);
    }
    array.memory = std::make_unique<Buffer>(device, static_cast<std::size_t>(bytes));
    array.samples = samples;
  }
  /// A backend that writes and translates nothing need not have this verb.
  template <class V = Verbs<Backend>>
  static void gather_rows(auto&&... arguments) {
    if constexpr (requires { V::gather_rows(arguments...); }) {
      V::gather_rows(arguments...);
    } else {
      expects(false, "translate(data): Verbs of this backend have no gather_rows(); give it them");
    }
  }
  // A step of fewer samples takes the first ones as they are.
  [[nodiscard]] bool is_identity(std::span<std::int32_t const> parents) const {
    bool same = static_cast<std::int64_t>(parents.size()) <= now_.samples;
    for (std::size_t b = 0; same && b < parents.size(); ++b) {
      same = parents[b] == static_cast<std::int32_t>(b);
    }
    return same;
  }

  std::vector<std::int64_t> bytes_;
  Array now_;
  Array then_;
};

/// All memory of a rank. What a node reads and writes for a microbatch stands in one of several
/// tables, table(m) for the replica's microbatch m; microbatches that are live at once have
/// different ones.
template <class Backend>
class RankMemory : public ParameterMemory<Backend> {
  using Base = ParameterMemory<Backend>;

 public:
  using typename Base::Buffer;
  using typename Base::Device;
  using typename Base::P;
  using typename Base::T;

  /// What a rank computes at a time: the operands of each node for one microbatch.
  using Table = OperandTable<T, P>;

  /// @param tables   outlive this
  /// @param needs    of each node's op
  /// @param scratch  bytes that the greediest pass wants
  /// @param task     what is planned for
  /// @param leaves  of one replica
  /// @param replicas  where the strategy takes any number
  TANDEM_COLD RankMemory(DeviceTables const& tables, Device& device,
                         std::vector<OpNeeds> const& needs, std::int64_t scratch, int states,
                         PlanTask const& task, int leaves, int replicas = 1)
      : Base{tables, device, states, leaves, task.batch, task.microbatches, replicas},
        task_{task},
        plan_{plan_memory(graph(), needs, task)},
        kept_{device, static_cast<std::size_t>(Arenas{plan_, task_}.kept_bytes())},
        recomputed_{device, static_cast<std::size_t>(plan_.recomputed_bytes)},
        transient_{device, static_cast<std::size_t>(Arenas{plan_, task_}.transient_bytes())},
        scratch_{device, static_cast<std::size_t>(scratch)},
        packed_{device, packed_bytes(needs) * static_cast<std::size_t>(places().count())},
        tables_{graph(),
                plan_,
                task_,
                places(),
                {kept_.data(), recomputed_.data(), transient_.data()},
                pointers(needs)},
        carried_{carried_bytes(needs)},
        carries_all_{carries_all(needs)},
        inputs_{edge_inputs(graph())},
        result_is_input_{result_is_input(graph())} {}
  TANDEM_COLD ~RankMemory() {}  // defaulted, each unit would compile it

  [[nodiscard]] MemoryPlan const& plan() const { return plan_; }
  /// Shows the plan to on_rank_memory, if it is set.
  TANDEM_COLD void show(std::vector<OpNeeds> const& needs, RankPlan const& rows) const {
    if (on_rank_memory<T, P> != nullptr) {
      on_rank_memory<T, P>({graph(),
                            needs,
                            task_,
                            plan_,
                            {kept_.data(), recomputed_.data(), transient_.data()},
                            tables_,
                            rows,
                            places().rule.on() ? &places() : nullptr});
    }
  }
  [[nodiscard]] std::byte* scratch() const { return scratch_.data(); }

  /// The operands for microbatch @p m of the replica; in an asynchronous pipeline those of F(m),
  /// for m up to places.tables().
  [[nodiscard]] Table const& table(int m) const { return tables_.forward(m); }
  /// The same for B(m), whose weights are others only where F's are predicted.
  [[nodiscard]] Table const& backward_table(int m) const { return tables_.backward(m); }

  /// Points every edge that carries the network's input number @p input to a node of stage
  /// @p stage to @p x, for microbatch @p m. Those of other stages may be of another microbatch,
  /// whose table this is, too.
  void set_input(int m, T const* x, int stage, int input = 0) {
    T const** const values = tables_.edge_values(m);
    for (std::ptrdiff_t const edge : inputs_[static_cast<std::size_t>(2 * stage + input)]) {
      values[edge] = x;
    }
    if (result_is_input_) {
      tables_.set_output(m, x);
    }
  }

  /// What ops hand from rows of time to later ones.
  [[nodiscard]] CarriedRows<Backend>& carried() { return carried_; }
  /// Whether all ops that read rows of both inputs do so.
  [[nodiscard]] bool carries_all() const { return carries_all_; }
  /// Points the operands for microbatch @p m to that of the rank's samples from @p first on.
  void carry(int m, std::int64_t first) {
    tables_.carry(m, [&](int n) { return carried_.at(n, first); });
  }
  /// Nothing is carried by microbatch @p m any more.
  void carry_nothing(int m) {
    tables_.carry(m, [](int) { return static_cast<std::byte*>(nullptr); });
  }

  /// See OperandTables.
  [[nodiscard]] Operands<T, P>& operands(int m, int n) const { return tables_.operands(m, n); }

  /// The gradient of a received node, to be sent for microbatch @p m: of its reader @p reader where
  /// they are sent apart.
  [[nodiscard]] T* outgoing(int m, int node, int reader = 0) const {
    return tables_.outgoing(m, node, reader);
  }

  /// Whether ops keep weights in layouts of their own.
  [[nodiscard]] bool packs() const { return packed_.bytes() > 0; }

  [[nodiscard]] TANDEM_COLD MemoryReport report() const {
    return {.parameters = Base::parameter_bytes(),
            .gradients = Base::gradient_bytes(),
            .optimizer_state = Base::state_bytes(),
            .kept = Base::size(kept_),
            .recomputed = Base::size(recomputed_),
            .transient = Base::size(transient_),
            .scratch = Base::size(scratch_) + Base::rows().scratch_bytes() + carried_.bytes(),
            .versions = Base::version_bytes(),
            .weights = Base::weight_bytes() + Base::size(packed_),
            .logical = plan_.logical_bytes};
  }

 private:
  [[nodiscard]] GraphView const& graph() const { return Base::tables().graph; }
  [[nodiscard]] WeightPlaces const& places() const { return Base::tables().places; }

  [[nodiscard]] TANDEM_COLD ParameterPointers<T, P> pointers(
      std::vector<OpNeeds> const& needs) const {
    ParameterPointers<T, P> all;
    LayoutView const& layout = Base::layout();
    if constexpr (HasRowVerbs<Backend>) {
      all.rows.resize(static_cast<std::size_t>(layout.row_gradients > 0 ? graph().parameters : 0));
      for (int r = 0; r < layout.row_gradients; ++r) {
        all.rows[static_cast<std::size_t>(layout.row_parameter[r])] = this->rows().buffer(r);
      }
    }
    for (int place = 0; place < places().count(); ++place) {
      for (int p = 0; p < graph().parameters; ++p) {
        all.parameter.push_back(this->parameter(p, place));
        all.weight.push_back(this->weight(p, place));
        bool const dense = layout.offset[p] < layout.dense;
        all.gradient.push_back(dense ? made_gradient(layout.offset[p]) : nullptr);
      }
      std::byte* next = packed_.data() + static_cast<std::size_t>(place) * packed_bytes(needs);
      for (OpNeeds const& need : needs) {
        all.packed.push_back(next);
        next += detail::aligned(need.packed_bytes);
      }
    }
    return all;
  }
  [[nodiscard]] P* made_gradient(std::int64_t element) const {
    int const bucket = bucket_of(Base::layout(), element);
    return this->made_gradients(bucket) + (element - Base::layout().bucket_begin[bucket]);
  }
  TANDEM_COLD static std::size_t packed_bytes(std::vector<OpNeeds> const& needs) {
    std::int64_t sum = 0;
    for (OpNeeds const& need : needs) {
      sum += detail::aligned(need.packed_bytes);
    }
    return static_cast<std::size_t>(sum);
  }

  // Of each node, a sample's; what reads the first of two inputs only has it whole.
  [[nodiscard]] TANDEM_COLD std::vector<std::int64_t> carried_bytes(
      std::vector<OpNeeds> const& needs) const {
    std::vector<std::int64_t> bytes;
    for (std::size_t n = 0; n < needs.size(); ++n) {
      bool const whole = Base::tables().reads_two && has_source_time(graph().node[n]);
      bytes.push_back(whole ? 0 : needs[n].carried_bytes);
    }
    return bytes;
  }

  [[nodiscard]] TANDEM_COLD bool carries_all(std::vector<OpNeeds> const& needs) const {
    bool all = true;
    for (std::size_t n = 0; n < needs.size(); ++n) {
      Node const& node = graph().node[n];
      for (int e = node.first_edge; node.computes() && e < node.first_edge + node.edges; ++e) {
        bool const other = graph().node[graph().source[e]].out.clock != node.in.clock;
        all = all && (!other || needs[n].carried_bytes > 0);
      }
    }
    return all;
  }

  // The edges that carry an input of the network: input i to stage s at 2 * s + i.
  [[nodiscard]] static TANDEM_COLD std::vector<std::vector<std::ptrdiff_t>> edge_inputs(
      GraphView const& graph) {
    std::vector<std::vector<std::ptrdiff_t>> all;
    for (int n = 0; n < graph.nodes; ++n) {
      Node const& node = graph.node[n];
      auto const first = static_cast<std::size_t>(2 * node.stage);
      all.resize(std::max(all.size(), first + 2));
      for (int e = node.first_edge; e < node.first_edge + node.edges; ++e) {
        Node const& root = graph.node[root_of(graph, graph.source[e])];
        if (root.kind == NodeKind::input) {
          all[first + static_cast<std::size_t>(root.input)].push_back(e);
        }
      }
    }
    return all;
  }
  [[nodiscard]] static TANDEM_COLD bool result_is_input(GraphView const& graph) {
    return graph.result >= 0 && graph.node[root_of(graph, graph.result)].kind == NodeKind::input;
  }

  PlanTask task_;
  MemoryPlan plan_;
  Buffer kept_;
  Buffer recomputed_;
  Buffer transient_;  // what is sent, then values and gradients
  Buffer scratch_;
  Buffer packed_;
  OperandTables<T, P> tables_;
  CarriedRows<Backend> carried_;
  bool carries_all_;
  std::vector<std::vector<std::ptrdiff_t>> inputs_;
  bool result_is_input_;
};

}  // namespace tandem
