// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pair, what comes of it, and whether two outcomes are equal.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tandem/train/checkpoint/checkpoint.hpp>

#include <tiny_network.hpp>

#include "contender.hpp"
#include "processes.hpp"
#include "samples.hpp"

namespace tandem::fuzz {

/// Bit for bit, or within what rounding explains.
enum class Agree { bits, bound };

/// Entry `many` trained with `rows` against entry `one` with so many microbatches.
struct Pair {
  int one = 0;
  int many = 0;
  int microbatches = 1;   ///< of all replicas
  char const* rows = "";  ///< a table of `many`; "": its own
  Agree agree = Agree::bits;
  std::vector<int> sizes{};  ///< of the batches
  std::vector<int> times{};  ///< rows of each batch, where they are sequences
  bool padded = false;       ///< `many` is given more rows than there are
  int saved = 0;             ///< behind so many steps, and loaded by others; 0: not
  int evaluated = 7;         ///< samples
  int settings = 0;          ///< those of equal number train alike: one run of `one` serves them
  TrainerOptions options{};  ///< batch and rows are set from the rest
  int epoch = 0;             ///< steps of an epoch behind the others
  std::uint64_t tardy = 0;   ///< of messages; 0: none is late
  bool alone = false;        ///< one device cannot do the same: only processes are compared
  bool twins = false;        ///< `one` is the same strategy as a value: all numbers have its bits
};

namespace detail {

template <class T>
using Values = std::vector<std::vector<T>>;

/// The parameters' values, then of each layer the first states, the second, …: those of its bias
/// are nothing but rounding where a batch norm takes it out again, and 0 where one has absorbed it.
/// Behind them the averages.
template <class T>
Values<T> values_of(std::vector<NamedParameter<T>> const& parameters) {
  Values<T> values;
  for (NamedParameter<T> const& own : parameters) {
    values.emplace_back(own.value.begin(), own.value.end());
  }
  std::string layer;
  std::size_t first = 0;  // of the layer's states
  for (NamedParameter<T> const& own : parameters) {
    std::string const path = own.name.substr(0, own.name.rfind('.') + 1);
    if (path != layer || first == 0) {
      first = values.size();
      layer = path;
    }
    values.resize(std::max(values.size(), first + own.states.size()));
    for (std::size_t s = 0; s < own.states.size(); ++s) {
      values[first + s].insert(values[first + s].end(), own.states[s].begin(), own.states[s].end());
    }
  }
  for (NamedParameter<T> const& own : parameters) {
    values.emplace_back(own.average.begin(), own.average.end());
  }
  return values;
}

template <class T>
struct Outcome {
  std::vector<float> first_predictions;
  std::vector<StepResult> steps;
  Values<T> values;
  Evaluation evaluation;
  std::vector<float> predictions;
  Evaluation raw{};  ///< of the weights themselves, where there are averages of them
};

template <class T>
void add(Bits& bits, Outcome<T> const& outcome) {
  bits.add(std::span{outcome.first_predictions});
  for (StepResult const& step : outcome.steps) {
    bits.add(step.loss);
    bits.add(step.weight);
    bits.add(step.gradient_norm);
    bits.add(std::span<double const>{step.metrics.value, std::size_t(step.metrics.size())});
  }
  for (std::vector<T> const& values : outcome.values) {
    bits.add(std::span<T const>{values});
  }
  for (Evaluation const& evaluation : {outcome.evaluation, outcome.raw}) {
    bits.add(evaluation.loss);
    bits.add(evaluation.weight);
    bits.add(evaluation.accuracy);
  }
  bits.add(std::span{outcome.predictions});
}

template <class T>
using Runs = std::map<std::string, Outcome<T>>;

/// Largest difference that rounding explains.
struct Bound {
  double loss;
  double values;       ///< relative to the largest of a tensor
  double predictions;  ///< floats, whatever was computed in
};

/// Some ten thousand roundings: of sums of as many numbers, in another order. Of bf16, whose sums
/// are float, some ten.
template <class T>
Bound least_bound(Task const& task) {
  if (task.rounding > 0.0) {
    return {32 * task.rounding, 64 * task.rounding, 64 * task.rounding};
  }
  constexpr double rounding = std::numeric_limits<T>::epsilon();
  return {4096 * rounding, 16384 * rounding, sizeof(T) == 4 ? 16384 * rounding : 1e-6};
}

inline TrainerOptions options_of(Pair const& pair) {
  TrainerOptions options = pair.options;
  options.batch = *std::max_element(pair.sizes.begin(), pair.sizes.end());
  options.timeout = std::chrono::seconds{60};
  return options;
}

/// All that a run of `one` depends on.
inline std::string key_of(Pair const& pair) {
  return std::to_string(pair.one) + " " + std::to_string(pair.microbatches) + " " +
         std::to_string(pair.settings) + " " + std::to_string(pair.epoch);
}

/// What step @p s of a pair is of.
template <class T>
Samples<T> samples_of(Pair const& pair, Task const& task, int s, bool is_many) {
  auto const step = static_cast<std::size_t>(s);
  std::uint64_t const seed = pair.options.seed + static_cast<std::uint64_t>(s);
  if (!task.input.timed) {
    test::Samples<T> own{task.input, task.classes, pair.sizes[step], seed};
    return {.x = std::move(own.x), .y = std::move(own.y)};
  }
  int const time = pair.times[step];
  int const rows = is_many && pair.padded ? std::min(time + 1 + s, task.input[0]) : time;
  Texts own = texts(task, pair.sizes[step], time, rows, seed, is_many ? 9 : 10);
  Samples<T> samples{
      .tokens = std::move(own.tokens), .y = std::move(own.y), .lengths = std::move(own.lengths)};
  samples.sequences.time = rows;
  auto const needed = [](std::vector<std::int32_t> const& lengths, int all) {
    return std::any_of(lengths.begin(), lengths.end(), [=](int length) { return length < all; });
  };
  if (needed(samples.lengths, rows)) {
    samples.sequences.lengths = samples.lengths;  // a vector's data stay where they are when moved
  }
  if (task.second.valid()) {
    int const other = 1 + drawn(seed, 0, 11, task.second[0]);
    int const padded = is_many && pair.padded ? std::min(other + 2 * s, task.second[0]) : other;
    Texts seconds = second_texts(task, pair.sizes[step], other, padded, seed, is_many ? 9 : 10);
    samples.seconds = std::move(seconds.tokens);
    samples.second_lengths = std::move(seconds.lengths);
    samples.sequences.second = samples.seconds;
    samples.sequences.second_time = padded;
    if (needed(samples.second_lengths, padded)) {
      samples.sequences.second_lengths = samples.second_lengths;
    }
  }
  return samples;
}

/// Step s is of samples that s alone decides.
/// @param saved_path  where to save behind pair.saved steps; "": do not
/// @param first       step to go on from
/// @param is_many     what must not matter is other than of `one`
template <class T>
Outcome<T> train(Contender<T>& contender, Pair const& pair, Task const& task, bool only_trains,
                 std::string const& saved_path, int first = 0, bool is_many = false) {
  Outcome<T> outcome;
  Data const data = data_of(task, pair.evaluated, pair.options.seed, is_many ? 9 : 10);
  if (!only_trains && first == 0) {
    outcome.first_predictions = contender.predict(data);
  }
  outcome.steps.resize(static_cast<std::size_t>(first));
  for (int s = first; s < static_cast<int>(pair.sizes.size()); ++s) {
    outcome.steps.push_back(contender.step(samples_of<T>(pair, task, s, is_many)));
    if (s + 1 == pair.saved && !saved_path.empty() && !only_trains) {
      contender.save(saved_path);
    }
  }
  if (pair.epoch > 0) {
    int const count = pair.epoch * options_of(pair).batch;
    Data const rows = data_of(task, count, pair.options.seed + 1, is_many ? 9 : 10);
    outcome.steps.push_back({.loss = contender.train(rows)});
  }
  outcome.values = values_of<T>(contender.parameters(0, 0));
  if (!only_trains) {
    outcome.evaluation = contender.evaluate(data);
    outcome.predictions = contender.predict(data);
    if (pair.options.average.on()) {
      outcome.raw = contender.evaluate(data, WhichModel::first);
    }
  }
  return outcome;
}

/// Every first parameter times 1 + u, |u| <= @p size.
template <class T>
void perturb(Contender<T>& contender, double size, std::string const& path) {
  std::uint64_t at = 0;
  for (NamedParameter<T> const& own : contender.parameters(0, 0)) {
    for (T& value : tandem::detail::writable(own.value)) {
      double const u = 2.0 * uniform(philox(99, RandomUse::user, ++at, 2).word[0]) - 1.0;
      value *= static_cast<T>(1.0 + size * u);
    }
  }
  contender.save(path);
  contender.load(path);
  std::remove(path.c_str());
}

/// 64 times the rounding of one operation, of bf16 once.
template <class T>
double perturbation_of(Task const& task) {
  return task.rounding > 0.0 ? task.rounding : 64.0 * std::numeric_limits<T>::epsilon();
}

template <class A>
double largest_difference(std::vector<A> const& a, std::vector<A> const& b, double& largest) {
  double worst = a.size() == b.size() ? 0.0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    double const off = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = std::max(largest, std::fabs(static_cast<double>(b[i])));
    worst = off <= worst ? worst : std::isfinite(off) ? off : INFINITY;
  }
  return worst;
}

/// Numbers far below gradients are what is left of sums that cancel, as those of a bias before a
/// norm: of them each rounding of the terms is seen, which no perturbation of parameters shows.
template <class A>
double relative_difference(std::vector<A> const& a, std::vector<A> const& b) {
  constexpr double cancelled = 1e-4;
  double largest = 0.0;
  double const worst = largest_difference(a, b, largest);
  return worst == 0.0 ? 0.0 : worst / (largest + cancelled);
}

/// 64 times what a perturbation of 64 roundings does, beside the least bound; of bf16 8 times.
template <class T>
Bound bound_from(Outcome<T> const& perturbed, Outcome<T> const& wanted, Task const& task) {
  Bound bound = least_bound<T>(task);
  double const times = task.rounding > 0.0 ? 8.0 : 64.0;
  for (std::size_t s = 0; s < wanted.steps.size(); ++s) {
    double const off = std::fabs(perturbed.steps[s].loss - wanted.steps[s].loss);
    bound.loss = std::max(bound.loss, times * off / wanted.steps[s].loss);
  }
  for (std::size_t p = 0; p < wanted.values.size(); ++p) {
    bound.values =
        std::max(bound.values, times * relative_difference(perturbed.values[p], wanted.values[p]));
  }
  bound.predictions = std::max(
      bound.predictions, times * relative_difference(perturbed.predictions, wanted.predictions));
  return bound;
}

inline std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

template <class A>
bool same_bits(std::vector<A> const& a, std::vector<A> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(A)) == 0);
}

template <class T>
std::string difference_of(Values<T> const& got, Values<T> const& wanted, Agree agree,
                          double bound) {
  if (got.size() != wanted.size()) {
    return "other numbers of parameters";
  }
  for (std::size_t p = 0; p < got.size(); ++p) {
    if (agree == Agree::bits && !same_bits(got[p], wanted[p])) {
      return "array " + std::to_string(p) + " of the parameters has other bits, off by " +
             number(relative_difference(got[p], wanted[p]));
    }
    if (double const off = relative_difference(got[p], wanted[p]); !(off <= bound)) {
      return "array " + std::to_string(p) + " of the parameters is off by " + number(off) +
             ", more than " + number(bound);
    }
  }
  return "";
}

inline std::string difference_of(std::vector<float> const& got, std::vector<float> const& wanted,
                                 Agree agree, double bound, char const* what) {
  if (agree == Agree::bits ? same_bits(got, wanted) : relative_difference(got, wanted) <= bound) {
    return "";
  }
  return std::string{what} + " is off by " + number(relative_difference(got, wanted));
}

inline bool same_metrics(StepResult const& got, StepResult const& wanted) {
  return got.counted == wanted.counted &&
         std::equal(got.metrics.value, got.metrics.value + got.metrics.size(),
                    wanted.metrics.value);
}

inline std::string difference_of(Evaluation const& got, Evaluation const& wanted,
                                 Bound const& bound, char const* what) {
  double const off = std::fabs(got.loss - wanted.loss);
  double const most = 4.0 * std::max(bound.loss, bound.values) * std::max(wanted.loss, 1.0);
  if (got.weight == wanted.weight && off <= most) {
    return "";
  }
  return "the evaluated loss" + std::string{what} + " is " + number(got.loss) + " of " +
         number(got.weight) + ", but " + number(wanted.loss) + " of " + number(wanted.weight) +
         " on one device";
}

/// "" if the outcomes are equal from @p first_step on.
template <class T>
std::string difference_of(Outcome<T> const& got, Outcome<T> const& wanted, Pair const& pair,
                          Task const& task, Bound const& bound, int first_step) {
  std::string why;
  bool const chooses = task.input.timed && !task.labelled && sizeof(T) < 8;
  bool const same_sums = task.same_kernels && !task.sliced;
  if (first_step == 0 && !(task.sliced && chooses)) {
    // The parameters are the same, and no sum over samples is made.
    bool const exact = pair.agree == Agree::bits || same_sums;
    why = difference_of(got.first_predictions, wanted.first_predictions,
                        exact ? Agree::bits : Agree::bound, bound.predictions,
                        "the first prediction");
  }
  for (std::size_t s = static_cast<std::size_t>(first_step); s < wanted.steps.size() && why.empty();
       ++s) {
    double const loss = wanted.steps[s].loss;
    double const off = std::fabs(got.steps[s].loss - loss);
    bool const exact = pair.agree == Agree::bits || (s == 0 && same_sums && !pair.padded);
    if (got.steps[s].weight != wanted.steps[s].weight && task.input.timed) {
      why = "step " + std::to_string(s) + " has a weight of " + number(got.steps[s].weight) +
            ", but " + number(wanted.steps[s].weight) + " on one device";
    } else if (exact ? got.steps[s].loss != loss : !(off <= bound.loss * loss)) {
      why = "the loss of step " + std::to_string(s) + " is " + number(got.steps[s].loss) +
            ", but " + number(loss) + " on one device";
    } else if (wanted.steps[s].metrics.size() > 0 &&
               (got.steps[s].weight != wanted.steps[s].weight ||
                (exact && !same_metrics(got.steps[s], wanted.steps[s])))) {
      why = "a metric or the weight of step " + std::to_string(s) + " is not that of one device";
    }
    double const norm = wanted.steps[s].gradient_norm;
    double const norm_off = std::fabs(got.steps[s].gradient_norm - norm);
    if (why.empty() &&
        (pair.agree == Agree::bits ? norm_off != 0.0 : !(norm_off <= 4.0 * bound.values * norm))) {
      why = "the gradient's norm of step " + std::to_string(s) + " is " +
            number(got.steps[s].gradient_norm) + ", but " + number(norm) + " on one device";
    }
  }
  why = why.empty() ? difference_of(got.values, wanted.values, pair.agree, bound.values) : why;
  why = why.empty() ? difference_of(got.evaluation, wanted.evaluation, bound, "") : why;
  why = why.empty() ? difference_of(got.raw, wanted.raw, bound, " of the weights") : why;
  if (chooses && pair.agree == Agree::bound) {
    return why;  // of tokens nearly as likely as one another rounding may choose
  }
  return why.empty() ? difference_of(got.predictions, wanted.predictions, pair.agree,
                                     bound.predictions, "the last prediction")
                     : why;
}

}  // namespace detail

}  // namespace tandem::fuzz
