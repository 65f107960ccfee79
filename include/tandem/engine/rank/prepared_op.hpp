// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// PreparedOp: the op of a node, whatever its type. What runs an op's passes is compiled for that
/// type, not for each network; phases are run one after another, with the other ranks.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>

#include <tandem/core/config.hpp>
#include <tandem/core/mesh.hpp>
#include <tandem/graph/graph.hpp>
#include <tandem/ops/concepts.hpp>
#include <tandem/ops/op.hpp>
#include <tandem/ops/phases.hpp>
#include <tandem/ops/tile_message.hpp>
#include <tandem/ops/verbs.hpp>

namespace tandem {

/// What the phases of an op ask of a rank. What is computed from then on reads the result.
template <class T>
class PhaseHost {
 public:
  /// @p data becomes its sum over the replicas of a local stage.
  virtual void join(std::span<double> data, int stage) = 0;
  /// Each of the ranks that share layers has written its own part of @p data, and all get all.
  virtual void gather(std::span<double> data) = 0;
  /// @p data becomes its sum over the ranks that have tiles of the same images.
  virtual void join_tiles(std::span<double> data) = 0;
  /// Sends to other tiles, and has what they have sent.
  virtual void exchange_tiles(std::span<TileMessage<T> const> messages) = 0;

 protected:
  ~PhaseHost() = default;
};

/// With which ranks the phases of a node's op join what they have.
struct PhaseRule {
  int stage = 0;          ///< the local stage of the node
  bool always = false;    ///< an evaluation joins them, too
  bool replicas = false;  ///< with those that have the same part of the model
  bool tiles = false;     ///< with those that have the other tiles of its images

  /// Whether there is anything to join.
  [[nodiscard]] constexpr bool joins() const { return replicas || tiles; }
};

/// The rule of a node: a vocabulary that ranks share, or statistics that they have together.
/// @param stage  its local stage
constexpr PhaseRule phase_rule(Node const& node, bool several_replicas, int stage = 0) {
  bool const shares_words = node.sharing.dealt == Dealt::vocabulary;
  return {.stage = stage,
          .always = shares_words,
          .replicas = shares_words || (several_replicas && node.synchronizes),
          .tiles = node.joins_tiles()};
}

/// How the passes of an op are run.
enum class OpWay {
  whole,     ///< one call each
  phased,    ///< its phases, also of a microbatch without samples
  exchange,  ///< of pixels: two calls, between which the engine sends what there is to send
};

/// Gradients that a backward pass of an op computes; of the ops of one type no others are compiled.
enum class Wanted : unsigned char { nothing, input, weight, both };
constexpr Wanted operator&(Wanted a, Wanted b) {
  return static_cast<Wanted>(static_cast<int>(a) & static_cast<int>(b));
}
constexpr Wanted operator|(Wanted a, Wanted b) {
  return static_cast<Wanted>(static_cast<int>(a) | static_cast<int>(b));
}
constexpr bool has(Wanted wanted, Wanted one) { return (wanted & one) == one; }
/// @param gives_input  see gives_input_gradient()
constexpr Wanted wanted_of(Node const& node, bool gives_input) {
  bool const trains = node.needs_gradient && node.parameters > 0 && !node.frozen;
  return (gives_input ? Wanted::input : Wanted::nothing) |
         (trains ? Wanted::weight : Wanted::nothing);
}

/// How the ops of one type are called.
struct OpCalls {
  OpWay way = OpWay::whole;
  Wanted wanted = Wanted::nothing;
};

/// The op of one node, made for its largest microbatch.
template <class Backend>
class PreparedOp {
 public:
  using Device = typename Backend::Device;
  using PassType = Pass<Device>;
  using Host = PhaseHost<typename Backend::Scalar>;

  PreparedOp(bool joins_gradients, bool packs_weights)
      : gives_both{joins_gradients}, packs{packs_weights} {}
  PreparedOp(PreparedOp const&) = delete;
  PreparedOp& operator=(PreparedOp const&) = delete;
  virtual ~PreparedOp() = default;

  [[nodiscard]] virtual OpNeeds needs() = 0;
  virtual void forward(Host& host, OperandsOf<Backend> const& operands, PassType const& pass) = 0;
  /// The input gradient, then the weight gradient, or both at once. @pre some is wanted
  virtual void backward(Host& host, OperandsOf<Backend> const& operands, PassType const& pass,
                        Wanted wanted) = 0;
  virtual void pack(OperandsOf<Backend> const& operands, Device& device) = 0;

  bool const gives_both;  ///< see JointOp
  bool const packs;       ///< see PackingOp
};

namespace detail {

/// Runs the phases of one pass, in order.
template <class O, class Backend>
struct PhaseRun {
  O& op;
  PhaseRule const& rule;
  PhaseHost<typename Backend::Scalar>& host;
  OperandsOf<Backend> const& operands;
  Pass<typename Backend::Device> const& pass;

  template <class... Phase>
  void operator()(Phases<Phase...> /*phases*/) const {
    (run(Phase{}), ...);
  }

 private:
  template <auto Run>
  void run(Compute<Run> /*phase*/) const {
    if (pass.batch > 0) {
      std::invoke(Run, op, operands, pass);
    }
  }
  template <Axis A, Joined How, auto Data>
  void run(tandem::Collective<A, How, Data> /*phase*/) const {
    static_assert(A == Axis::data && How == Joined::sum, "PhaseHost joins nothing else");
    std::span<double> const data = std::invoke(Data, op, operands);
    if (pass.batch == 0) {
      Verbs<Backend>::zero(pass.device, data.data(), static_cast<std::int64_t>(data.size()));
    }
    if (rule.tiles) {
      host.join_tiles(data);
    }
    if (rule.replicas) {
      host.join(data, rule.stage);
    }
  }
  template <Axis A, auto Data>
  void run(Gather<A, Data> /*phase*/) const {
    static_assert(A == Axis::tensor, "PhaseHost gathers along no other axis");
    host.gather(std::invoke(Data, op, operands, pass));
  }
};

}  // namespace detail

/// A PreparedOp that calls an Op.
template <class O, class Backend, OpCalls Calls>
class OpOf final : public PreparedOp<Backend> {
  using Base = PreparedOp<Backend>;
  using typename Base::Device;
  using typename Base::Host;
  using typename Base::PassType;
  using Own = OperandsOf<Backend>;
  static constexpr OpWay way = Calls.way;
  static constexpr bool joint = Calls.wanted == Wanted::both && way == OpWay::whole &&
                                requires(O & op, Own const& own, PassType const& pass) {
    op.both_gradients(own, pass);
  };
  static constexpr bool packing = requires(O & op, Own const& own, Device& device) {
    op.pack(own, device);
  };

 public:
  TANDEM_COLD OpOf(OpSetup const& setup, Device& device, PhaseRule const& rule)
      : Base{joint, packing}, rule_{rule}, op_{make(setup, device)} {}

  [[nodiscard]] TANDEM_COLD OpNeeds needs() override { return op_.needs(); }

  void forward(Host& host, Own const& own, PassType const& pass) override {
    if constexpr (way == OpWay::exchange) {
      op_.begin_forward(own, pass);
      host.exchange_tiles(op_.messages());
      op_.finish_forward(own, pass);
    } else {
      if constexpr (way == OpWay::phased) {
        if (rule_.always || pass.training) {
          return phases(host, own, pass)(typename O::ForwardPhases{});
        }
      }
      op_.forward(own, pass);
    }
  }
  void backward(Host& host, Own const& own, PassType const& pass, Wanted wanted) override {
    if constexpr (joint) {
      if (wanted == Wanted::both) {
        return op_.both_gradients(own, pass);
      }
    }
    if constexpr (has(Calls.wanted, Wanted::input)) {
      if (Calls.wanted == Wanted::input || wanted != Wanted::weight) {
        input_gradient(host, own, pass);
      }
    }
    if constexpr (has(Calls.wanted, Wanted::weight)) {
      if (Calls.wanted == Wanted::weight || wanted != Wanted::input) {
        weight_gradient(host, own, pass);
      }
    }
  }
  void pack(Own const& own, Device& device) override {
    if constexpr (packing) {
      op_.pack(own, device);
    }
  }

 private:
  // Some ops need no device to be prepared.
  TANDEM_COLD static O make(OpSetup const& setup, Device& device) {
    if constexpr (std::is_constructible_v<O, OpSetup const&, Device&>) {
      return O{setup, device};
    } else {
      return O{setup};
    }
  }
  void input_gradient([[maybe_unused]] Host& host, Own const& own, PassType const& pass) {
    if constexpr (way == OpWay::exchange) {
      op_.begin_input_gradient(own, pass);
      host.exchange_tiles(op_.messages());
      op_.finish_input_gradient(own, pass);
    } else if constexpr (way == OpWay::phased) {
      phases(host, own, pass)(typename O::InputGradientPhases{});
    } else {
      op_.input_gradient(own, pass);
    }
  }
  void weight_gradient([[maybe_unused]] Host& host, Own const& own, PassType const& pass) {
    if constexpr (way == OpWay::phased) {
      phases(host, own, pass)(typename O::WeightGradientPhases{});
    } else {
      op_.weight_gradient(own, pass);
    }
  }
  detail::PhaseRun<O, Backend> phases(Host& host, Own const& own, PassType const& pass) {
    return {op_, rule_, host, own, pass};
  }

  struct NoRule {
    explicit NoRule(PhaseRule const& /*rule*/) {}
  };

  [[no_unique_address]] std::conditional_t<way == OpWay::phased, PhaseRule, NoRule> rule_;
  O op_;
};

template <class Backend>
using OpPointer = std::unique_ptr<PreparedOp<Backend>>;

/// Prepares the op of a node.
template <class Backend>
using OpFactory = OpPointer<Backend> (*)(OpSetup const&, typename Backend::Device&,
                                         PhaseRule const&);

template <class O, class Backend, OpCalls Calls>
TANDEM_COLD OpPointer<Backend> make_op(OpSetup const& setup, typename Backend::Device& device,
                                       PhaseRule const& rule) {
  return std::make_unique<OpOf<O, Backend, Calls>>(setup, device, rule);
}

}  // namespace tandem
