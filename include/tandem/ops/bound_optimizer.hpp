// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// own_optimizer<Backend>(): an OwnOptimizer with the kernels of its update, for one backend.
///
/// Only here do an optimizer's type and a backend meet, so a program compiles the updates of the
/// optimizers that it names, and pays a virtual call for each run of parameters.

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/ops/verbs.hpp>
#include <tandem/optim/optimizer.hpp>

namespace tandem {

/// What Update calls of an optimizer whose type it does not know. The primary template is for
/// devices that share the host's memory.
template <class Backend>
struct BoundOptimizer : AnyOptimizer {
  using Device = typename Backend::Device;
  using T = typename Backend::Master;

  /// One step of @p n weights; of a whole parameter where the optimizer is by tensor.
  /// @param run  its states in the order of AnyOptimizer::states
  virtual void update(Device& device, ParameterRun<T, most_states> const& run, std::int64_t n,
                      UpdateSettings const& settings) const = 0;

  /// The same of some rows of a parameter, at whose row 0 @p run begins.
  /// @pre keeps_untouched, and no weight decay
  virtual void update_rows(Device& device, ParameterRun<T, most_states> const& run,
                           GradientRows<T> const& rows, UpdateSettings const& settings) const = 0;
};

namespace detail {

/// The states of @p all, which are those kept, each in its place among the type's.
template <int Places, class T>
ParameterRun<T, Places> run_of_type(AnyOptimizer const& any,
                                    ParameterRun<T, most_states> const& all) {
  ParameterRun<T, Places> run{.parameter = all.parameter, .gradient = all.gradient};
  for (std::size_t s = 0; s < any.states.size(); ++s) {
    run.state[any.states[s].place] = all.state[s];
  }
  return run;
}

/// One of `parts` parts of a parameter: its states are moved, its square sums written.
template <class Update>
struct MovePart {
  static constexpr std::int64_t parts = 256;

  Update update;
  std::int64_t n;
  double* of_parameter;  // (parts)
  double* of_direction;

  void operator()(std::int64_t part) const {
    std::int64_t const length = (n + parts - 1) / parts;  // no bit depends on threads
    double p = 0.0;
    double u = 0.0;
    for (std::int64_t i = part * length; i < n && i < (part + 1) * length; ++i) {
      update.move(i, p, u);
    }
    of_parameter[part] = p;
    of_direction[part] = u;
  }
};

template <class Backend, class O>
struct BoundTo final : BoundOptimizer<Backend> {
  using typename BoundOptimizer<Backend>::Device;
  using typename BoundOptimizer<Backend>::T;

  explicit BoundTo(O const& o) : optimizer{o} { describe_optimizer(o, *this); }

  void update(Device& device, ParameterRun<T, most_states> const& run, std::int64_t n,
              UpdateSettings const& settings) const override {
    auto update = make_update<T>(optimizer, settings, run_of_type<places_of<O>>(*this, run));
    if constexpr (TensorOptimizer<O>) {
      using Part = MovePart<decltype(update)>;
      double p[Part::parts];
      double u[Part::parts];
      Verbs<Backend>::each(device, Part::parts, Part{update, n, p, u});
      for (std::int64_t i = 1; i < Part::parts; ++i) {
        p[0] += p[i];
        u[0] += u[i];
      }
      update.take_norms(p[0], u[0]);
    }
    Verbs<Backend>::each(device, n, update);
  }

  void update_rows(Device& device, ParameterRun<T, most_states> const& run,
                   GradientRows<T> const& rows, UpdateSettings const& settings) const override {
    if constexpr (keeps_untouched<O> && ElementOptimizer<O>) {
      Verbs<Backend>::each_row(
          device, rows, make_update<T>(optimizer, settings, run_of_type<places_of<O>>(*this, run)));
    }
  }

  O optimizer;
};

/// Each ability comes as a bool, which compilers explain in one line, as they do not a concept.
template <bool HasName, bool HasRate, bool CopiesAsBytes, bool NamesStates, bool Updates>
struct OptimizerParts {
  static constexpr bool value = true;
  static_assert(HasName,
                "an optimizer's type has `static constexpr std::string_view name`, by which "
                "checkpoints know it; see ElementOptimizer of tandem/optim/own_optimizer.hpp");
  static_assert(!HasName || HasRate,
                "an optimizer's type has a member `float learning_rate`, which schedules and "
                "groups scale; see ElementOptimizer of tandem/optim/own_optimizer.hpp");
  static_assert(!HasName || !HasRate || CopiesAsBytes,
                "an optimizer is copied to devices as bytes: let its members be numbers, no "
                "strings or vectors, and leave out constructors of copies and destructors");
  static_assert(!HasName || !HasRate || !CopiesAsBytes || NamesStates,
                "an optimizer's `static constexpr std::string_view state_names[]` are at most 8, "
                "none empty or with a dot, no two alike: checkpoints have states by these names");
  static_assert(!HasName || !HasRate || !CopiesAsBytes || !NamesStates || Updates,
                "an optimizer's type has `template <class V> V next(V p, V g, V (&state)[N], auto "
                "const& settings) const` for float and double, N being the number of its "
                "state_names; without states next(p, g, settings); see ElementOptimizer of "
                "tandem/optim/own_optimizer.hpp");
};
template <class O>
using OptimizerFits = OptimizerParts<HasOptimizerName<O>, HasLearningRate<O>, CopiesAsBytes<O>,
                                     NamesStates<O>, ElementOptimizer<O> || TensorOptimizer<O>>;

}  // namespace detail

/// @p optimizer for .optimizer of TrainerOptions, with its update on @p Backend. A trainer that is
/// given it behind the options does so by itself.
/// @throws ContractError  one of its settings is out of range
template <class Backend, class O>
OwnOptimizer own_optimizer(O const& optimizer) {
  static_assert(detail::OptimizerFits<O>::value);
  OwnOptimizer own;
  if constexpr (ElementOptimizer<O> || TensorOptimizer<O>) {
    own.learning_rate = static_cast<float>(optimizer.learning_rate);
    if constexpr (requires { optimizer.weight_decay; }) {
      own.weight_decay = static_cast<float>(optimizer.weight_decay);
    }
    own.type = std::make_shared<detail::BoundTo<Backend, O>>(optimizer);
  }
  return own;
}

namespace detail {

/// Any optimizer for trainers on Backend.
template <class Backend, class O>
Optimizer optimizer_for(O const& optimizer) {
  if constexpr (std::is_same_v<O, Optimizer> || is_alternative<O>) {
    return optimizer;
  } else {
    return own_optimizer<Backend>(optimizer);
  }
}

}  // namespace detail

/// The update of @p own on Backend.
/// @throws ContractError  it was made for another
template <class Backend>
BoundOptimizer<Backend> const& bound_to(OwnOptimizer const& own) {
  auto const* const bound = dynamic_cast<BoundOptimizer<Backend> const*>(own.type.get());
  expects(bound != nullptr,
          "TrainerOptions: .optimizer was made for another backend than the trainer's; write "
          "own_optimizer<B>(...) with the trainer's B, or give it behind the options: "
          "Trainer<...> trainer{{.batch = 128}, Lion{...}}");
  return *bound;
}

/// One step of some rows of a parameter by an optimizer that leaves the others alone.
/// @param parameter  its row 0
/// @param states     array s of its states begins at states(s)
template <class Backend, class O, class P, class States>
void update_weight_rows(typename Backend::Device& device, O const& optimizer, P* parameter,
                        GradientRows<P> const& rows, States const& states,
                        UpdateSettings const& settings) {
  if constexpr (std::is_same_v<O, OwnOptimizer>) {
    ParameterRun<P, most_states> run{.parameter = parameter, .gradient = nullptr};
    for (int s = 0; s < optimizer.states(); ++s) {
      run.state[s] = states(s);
    }
    bound_to<Backend>(optimizer).update_rows(device, run, rows, settings);
  } else if constexpr (std::is_same_v<O, Sgd>) {
    ParameterRun<P> const run{.parameter = parameter, .gradient = nullptr};
    Verbs<Backend>::each_row(device, rows, make_update<P>(optimizer, settings, run));
  }
}

/// One step of @p n weights by any optimizer.
/// @param run     where they begin
/// @param states  array s of its states begins at states(s)
template <class Backend, class O, class P, class States>
void update_weights(typename Backend::Device& device, O const& optimizer, P* parameter,
                    P const* gradient, States const& states, std::int64_t n,
                    UpdateSettings const& settings) {
  constexpr bool own = std::is_same_v<O, OwnOptimizer>;
  ParameterRun<P, own ? most_states : 2> run{.parameter = parameter, .gradient = gradient};
  for (int s = 0; s < optimizer.states(); ++s) {
    run.state[s] = states(s);
  }
  if constexpr (own) {
    bound_to<Backend>(optimizer).update(device, run, n, settings);
  } else {
    Verbs<Backend>::each(device, n, make_update<P>(optimizer, settings, run));
  }
}

}  // namespace tandem
