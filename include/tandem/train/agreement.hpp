// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What several processes must have alike: their options when they make a Trainer, and each call
/// that they make together.
///
/// Each process writes down names and values as text. All send a hash of theirs, and only where two
/// differ the texts, so that every process can say what differs, and where. The samples of a data
/// set are not compared, only their number.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/hash.hpp>
#include <tandem/core/type_text.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/optim/schedule.hpp>
#include <tandem/train/checkpoint/processes/group.hpp>
#include <tandem/train/options/options.hpp>

namespace tandem {

namespace detail {

/// Names and values as text, in an order that is the same in all processes.
class Statements {
 public:
  Statements& add(std::string name, std::string value) {
    list_.emplace_back(std::move(name), std::move(value));
    return *this;
  }
  /// A number with as many digits as tell it from every other of its type.
  template <class T>
  requires std::is_arithmetic_v<T> Statements& add(std::string name, T value) {
    return add(std::move(name), text_of(value));
  }

  /// @param prefix  what their names begin with here
  TANDEM_ONCE Statements& add(std::string const& prefix, Statements const& others);

  template <class T>
  [[nodiscard]] static std::string text_of(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else {
      char text[40] = {};
      return {text, std::to_chars(text, text + sizeof text, value).ptr};
    }
  }

  /// All of it, each part behind a 0.
  TANDEM_ONCE [[nodiscard]] std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

/// Numbers and their names, of a call. They become text only where processes meet, so that a
/// program of one process compiles no more than this.
class CallNumbers {
 public:
  struct Number {
    char const* name = nullptr;
    bool whole = false;
    std::int64_t integer = 0;
    double number = 0.0;
  };

  template <class T>
  CallNumbers& add(char const* name, T value) {
    constexpr bool whole = std::is_integral_v<T>;
    list_.at(count_++) = {name, whole, static_cast<std::int64_t>(whole ? value : T{}),
                          static_cast<double>(value)};
    return *this;
  }
  [[nodiscard]] Statements statements() const {
    Statements all;
    for (Number const& own : std::span{list_}.first(count_)) {
      all.add(own.name,
              own.whole ? Statements::text_of(own.integer) : Statements::text_of(own.number));
    }
    return all;
  }

 private:
  std::array<Number, 6> list_{};
  std::size_t count_ = 0;
};

/// "process 3", "processes 1 and 3", "processes 1, 3 and 12 more"
TANDEM_ONCE std::string names_of_processes(std::vector<int> const& all);

/// The first name whose value differs in two texts of Statements, and both values; of three empty
/// strings where none does.
TANDEM_ONCE std::vector<std::string> first_difference(std::string_view one, std::string_view other);

/// What differs in two processes, as a sentence without its end; "" where all have the same. All
/// call it.
///
/// Cost: an all-reduce of two numbers a process; where they differ, of the texts of two.
TANDEM_ONCE TANDEM_COLD std::string disagreement(ProcessGroup& group, Statements const& own);

TANDEM_ONCE void state(Statements& all, std::string const& name, Optimizer const& optimizer);

/// A function of the program is not called: its rates are compared when they are taken.
TANDEM_ONCE void state(Statements& all, std::string const& name, Schedule const& schedule);

TANDEM_ONCE void state(Statements& all, std::string const& name, ParameterGroup const& group);

/// All options that several processes must have alike. Left out are those that change no number:
/// threads, time-outs, how a GPU's work is queued, where and how many checkpoints stay, and after
/// how many seconds, which process 0 decides.
TANDEM_ONCE TANDEM_COLD void state(Statements& all, TrainerOptions const& options);

/// @param types  of the network, its body, its input, the strategy, loss, metric and backend
TANDEM_ONCE TANDEM_COLD Statements statements_of(std::span<std::string const> types,
                                                 TrainerOptions const& options);

}  // namespace detail

/// All processes of a trainer have the same @p own. All call it; of one process it does nothing.
/// @param advice  ends the sentence
/// @throws ContractError  one has something else, in all of them
template <class Workers>
TANDEM_COLD void agree(Workers& workers, World const& world, detail::Statements const& own,
                       char const* advice) {
  if (workers.facts().asynchrony.on()) {  // of which there is one process
    return;
  }
  detail::WorkersAsProcesses<Workers> group{workers, world};
  if (std::string const text = detail::disagreement(group, own); !text.empty()) {
    workers.leave_in_order();
    throw ContractError{text + advice};
  }
}

/// All processes make a trainer of the same types and options.
template <class Net, class... Types, class Workers>
void agree_on_options(Workers& workers, TrainerOptions const& options) {
  if (options.world.processes > 1) {
    std::string const types[] = {type_text<Net>(), type_text<typename Net::body>(),
                                 type_text<typename Net::input>(), type_text<Types>()...};
    agree(workers, options.world, detail::statements_of(types, options),
          "; start one program everywhere and give all processes the same options: what is drawn "
          "at random let one process draw, and tell the others");
  }
}

/// All processes make the same call. @param call  "evaluate()"
template <class Workers>
void agree_on_call(Workers& workers, World const& world, char const* call,
                   detail::CallNumbers const& what = {}) {
  if (world.processes > 1) {
    detail::Statements all;
    all.add("the call of the trainer", call).add(std::string{call} + ": ", what.statements());
    agree(workers, world, all,
          "; let all processes make the same calls in the same order, on data sets of one size: "
          "only printing is for one of them");
  }
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string Statements::text() const {
  std::string all;
  for (auto const& [name, value] : list_) {
    all.append(1, '\0').append(name).append(1, '\0').append(value);
  }
  return all;
}

TANDEM_ONCE std::string names_of_processes(std::vector<int> const& all) {
  constexpr std::size_t most = 4;
  std::size_t const shown = all.size() > most ? most - 2 : all.size();
  std::string text = all.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < shown; ++i) {
    text += (i == 0 ? "" : i + 1 == all.size() ? " and " : ", ") + std::to_string(all[i]);
  }
  return shown == all.size() ? text : text + " and " + std::to_string(all.size() - shown) + " more";
}

TANDEM_ONCE std::vector<std::string> first_difference(std::string_view one,
                                                      std::string_view other) {
  auto const next = [](std::string_view& text) {
    if (text.empty()) {
      return std::string{};
    }
    std::size_t const end = text.find('\0', 1);
    std::string part{text.substr(1, end == text.npos ? end : end - 1)};
    text.remove_prefix(end == text.npos ? text.size() : end);
    return part;
  };
  while (!one.empty() || !other.empty()) {
    std::string const name = next(one);
    std::string const of_one = next(one);
    std::string const other_name = next(other);
    std::string const of_other = next(other);
    if (name != other_name || of_one != of_other) {
      return {name.empty() ? other_name : name, of_one, of_other};
    }
  }
  return {"", "", ""};
}

TANDEM_ONCE std::string disagreement(ProcessGroup& group, Statements const& own) {
  auto const processes = static_cast<std::size_t>(group.processes());
  auto const here = static_cast<std::size_t>(group.process());
  std::string const text = own.text();
  std::uint64_t const hash = hash_of(text);
  std::vector<double> hashes(2 * processes);  // in halves, which a double holds
  hashes[2 * here] = static_cast<double>(hash >> 32U);
  hashes[2 * here + 1] = static_cast<double>(hash & 0xFFFFFFFFU);
  group.add_up(hashes);
  auto const alike = [&](std::size_t p, std::size_t q) {
    return hashes[2 * p] == hashes[2 * q] && hashes[2 * p + 1] == hashes[2 * q + 1];
  };
  std::size_t other = 1;
  while (other < processes && alike(0, other)) {
    ++other;
  }
  if (other >= processes) {
    return {};
  }
  std::string const first = text_of_one(group, here == 0 ? text : std::string{});
  std::string const second = text_of_one(group, here == other ? text : std::string{});
  try {
    double nothing = 0.0;
    group.add_up(std::span{&nothing, 1});  // who is through this knows that all have the texts
  } catch (Error const&) {                 // one that knew it has left already
  }
  std::vector<int> of_first;
  std::vector<int> of_other;
  for (std::size_t p = 0; p < processes; ++p) {
    if (alike(0, p) || alike(other, p)) {
      (alike(0, p) ? of_first : of_other).push_back(static_cast<int>(p));
    }
  }
  std::vector<std::string> const found = first_difference(first, second);
  return found[0] + " is " + found[1] + " in " + names_of_processes(of_first) + ", but " +
         found[2] + " in " + names_of_processes(of_other);
}

TANDEM_ONCE void state(Statements& all, std::string const& name, Optimizer const& optimizer) {
  all.add(name, optimizer_name(optimizer));
  std::visit(
      [&](auto const& o) {
        using O = std::decay_t<decltype(o)>;
        all.add(name + ".learning_rate", o.learning_rate);
        all.add(name + ".weight_decay", o.weight_decay);
        if constexpr (std::is_same_v<O, Sgd>) {
          all.add(name + ".momentum", o.momentum).add(name + ".nesterov", o.nesterov);
        } else if constexpr (!std::is_same_v<O, OwnOptimizer>) {
          all.add(name + ".beta1", o.beta1).add(name + ".beta2", o.beta2);
          all.add(name + ".epsilon", o.epsilon);
        }
      },
      optimizer);
}

TANDEM_ONCE void state(Statements& all, std::string const& name, Schedule const& schedule) {
  static constexpr char const* names[] = {"Constant", "StepDecay",  "Cosine",  "Polynomial",
                                          "OneCycle", "a function", "Halvings"};
  all.add(name, names[schedule.after.index()]);
  std::visit(
      [&](auto const& s) {
        if constexpr (requires { s.steps; }) {
          all.add(name + ".steps", s.steps);
        }
        if constexpr (requires { s.begin; }) {
          all.add(name + ".begin", s.begin);
        }
        if constexpr (requires { s.every; }) {
          all.add(name + ".every", s.every);
        }
        if constexpr (requires { s.most; }) {
          all.add(name + ".most", s.most);
        }
        if constexpr (requires { s.factor; }) {
          all.add(name + ".factor", s.factor);
        }
        if constexpr (requires { s.power; }) {
          all.add(name + ".power", s.power);
        }
        if constexpr (requires { s.rise; }) {
          all.add(name + ".rise", s.rise).add(name + ".start", s.start);
        }
        if constexpr (requires { s.final; }) {
          all.add(name + ".final", s.final);
        }
      },
      schedule.after);
  all.add(name + ".warm_up", schedule.warm_up.steps);
  all.add(name + ".warm_up.start", schedule.warm_up.start);
}

TANDEM_ONCE void state(Statements& all, std::string const& name, ParameterGroup const& group) {
  all.add(name + ".pattern", "'" + group.pattern + "'");
  all.add(name + ".learning_rate_scale", group.learning_rate_scale);
  all.add(name + ".weight_decay",
          group.weight_decay ? Statements::text_of(*group.weight_decay) : "the optimizer's");
  all.add(name + ".frozen", group.frozen).add(name + ".below_axes", group.below_axes);
  all.add(name + ".clip_norm", group.clip_norm).add(name + ".clip_value", group.clip_value);
  all.add(name + ".gradient_scale", group.gradient_scale);
}

TANDEM_ONCE void state(Statements& all, TrainerOptions const& options) {
  auto const own = [](char const* name) { return std::string{"TrainerOptions::"} + name; };
  all.add(own("batch"), options.batch);
  state(all, own("optimizer"), options.optimizer);
  state(all, own("schedule"), options.schedule);
  all.add(own("clip_norm"), options.clip_norm).add(own("clip_value"), options.clip_value);
  LossScaling const scaling = options.loss_scaling.value_or(LossScaling::off());
  all.add(own("loss_scaling.initial"), scaling.initial);
  all.add(own("loss_scaling.growth"), scaling.growth);
  all.add(own("loss_scaling.backoff"), scaling.backoff);
  all.add(own("loss_scaling.every"), scaling.every);
  all.add("the number of TrainerOptions::groups", options.groups.size());
  for (std::size_t g = 0; g < options.groups.size(); ++g) {
    state(all, own("groups[") + std::to_string(g) + "]", options.groups[g]);
  }
  all.add(own("average.decay"), options.average.decay);
  all.add(own("average.pattern"), "'" + options.average.pattern + "'");
  all.add(own("seed"), options.seed).add(own("shuffle"), options.shuffle);
  all.add(own("drop_last"), options.drop_last).add(own("microbatches"), options.microbatches);
  std::string rows;
  for (auto const& row : options.rows) {
    for (Action const action : row) {
      rows += to_string(action) + " ";
    }
    rows += "\n";
  }
  all.add(own("rows"), std::to_string(options.rows.size()) + " rows with the hash " +
                           std::to_string(hash_of(rows)));
  Checkpoints const& checkpoints = options.checkpoints;
  all.add(own("checkpoints"), checkpoints.on() ? "given" : "not given");
  all.add(own("checkpoints.every_steps"), checkpoints.every_steps);
  all.add(own("checkpoints.every_seconds"), checkpoints.every_seconds > 0.0 ? "given" : "0");
  all.add(own("checkpoints.on_signals"), checkpoints.on_signals);
}

TANDEM_ONCE Statements statements_of(std::span<std::string const> types,
                                     TrainerOptions const& options) {
  static constexpr char const* names[] = {"the strategy", "the loss", "the metric", "the backend"};
  Statements all;
  all.add("the version of tandem, as TANDEM_VERSION says it,", TANDEM_VERSION);
  all.add("the network",
          types[0] + " with the hash " + std::to_string(hash_of(types[1] + types[2])));
  for (std::size_t i = 0; i < std::size(names); ++i) {
    all.add(names[i], types[3 + i]);
  }
  state(all, options);
  return all;
}

TANDEM_ONCE Statements& Statements::add(std::string const& prefix, Statements const& others) {
  for (auto const& [name, value] : others.list_) {
    add(prefix + name, value);
  }
  return *this;
}

}  // namespace tandem::detail

#endif
