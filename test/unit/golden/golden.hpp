// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Golden: a file that test/golden/generate.py wrote with PyTorch, and the comparisons with it.
///
/// A difference is measured against the sum of |terms| of the last contraction behind a number, not
/// against the number: the gradient of a bias before a batch norm is truly zero, its terms are not.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/tandem.hpp>

namespace tandem::test {

inline std::string golden_path(std::string const& name) {
  return std::string{TANDEM_TEST_DATA} + "/golden/" + name + ".safetensors";
}

class Golden {
 public:
  explicit Golden(std::string const& name)
      : path_{golden_path(name)}, file_{Safetensors::read(path_)} {}

  [[nodiscard]] std::string const& path() const { return path_; }

  /// The values of a tensor, whatever its type, as numbers of type T.
  template <class T = double>
  [[nodiscard]] std::vector<T> values(std::string const& name) const {
    TensorView const& tensor = file_.at(name);
    switch (tensor.dtype) {
      case Dtype::F64:
        return converted<T, double>(tensor);
      case Dtype::F32:
        return converted<T, float>(tensor);
      case Dtype::I32:
        return converted<T, std::int32_t>(tensor);
      case Dtype::I64:
        return converted<T, std::int64_t>(tensor);
      default:
        FAIL(name << ": not a type of these files");
        return {};
    }
  }
  [[nodiscard]] double value(std::string const& name) const { return values(name).at(0); }

  /// The bound on an error relative to the sum of |terms|: the roundings of n additions, n those on
  /// the longest path to the loss and back, add up as a random walk, to sqrt(n) eps; 8 of these
  /// leave room for the factors that the layers between multiply errors by.
  template <class T>
  [[nodiscard]] double bound() const {
    return 8.0 * std::sqrt(value("chain")) * static_cast<double>(std::numeric_limits<T>::epsilon());
  }

 private:
  template <class T, class Stored>
  static std::vector<T> converted(TensorView const& tensor) {
    std::vector<Stored> stored(tensor.data.size() / sizeof(Stored));
    std::memcpy(stored.data(), tensor.data.data(), tensor.data.size());
    std::vector<T> values;
    for (Stored const v : stored) {
      values.push_back(static_cast<T>(v));
    }
    return values;
  }

  std::string path_;
  Safetensors file_;
};

/// Checks |own - golden| <= bound * scale element by element; reports the worst element, with the
/// argument -s of the test program also where it passes.
template <class T>
void check_close(std::string const& what, std::span<T const> own, std::vector<double> const& golden,
                 std::vector<double> const& scale, double bound) {
  REQUIRE_MESSAGE(own.size() == golden.size(), what);
  REQUIRE_MESSAGE(own.size() == scale.size(), what);
  std::size_t worst = 0;
  double most = -1.0;
  for (std::size_t i = 0; i < own.size() && !std::isnan(most); ++i) {
    double const error = std::abs(static_cast<double>(own[i]) - golden[i]) / scale[i];
    if (!(error <= most)) {
      most = error;
      worst = i;
    }
  }
  CHECK_MESSAGE(most <= bound, what << "[" << worst << "] is " << own[worst] << ", PyTorch has "
                                    << golden[worst] << ": " << most << " of the sum of |terms| "
                                    << scale[worst] << ", bound " << bound);
}

/// The same with one scale for all elements.
template <class T>
void check_close(std::string const& what, std::span<T const> own, std::vector<double> const& golden,
                 double scale, double bound) {
  check_close(what, own, golden, std::vector<double>(golden.size(), scale), bound);
}

inline double largest(std::vector<double> const& values) {
  double most = 0.0;
  for (double const v : values) {
    most = std::max(most, std::abs(v));
  }
  return most;
}

/// Sets parameters and statistics to the file's initial values. The file has them in double; for a
/// trainer in float, of one rank, they are converted, which changes none of them.
template <class TrainerType>
void load_initial(TrainerType& trainer, Golden const& golden) {
  using T = typename TrainerType::T;
  if constexpr (std::is_same_v<T, double>) {
    trainer.load_weights(golden.path());
  } else {
    static_assert(TrainerType::ProgramType::ranks == 1);
    for (NamedParameter<T> const& p : trainer.parameters()) {
      trainer.set_parameter(p.name, golden.values<T>(p.name));
    }
  }
}

/// Runs training or evaluation below the Trainer's door, where the outputs can be had.
template <class TrainerType>
std::vector<typename TrainerType::T> outputs_of(TrainerType& trainer, Golden const& golden,
                                                std::string const& x, std::string const& targets,
                                                bool training) {
  using T = typename TrainerType::T;
  auto const in = golden.values<T>(x);
  auto const wanted = golden.values<typename TrainerType::Target>(targets);
  auto const samples =
      static_cast<int>(static_cast<std::int64_t>(in.size()) / TrainerType::input.elements());
  std::vector<T> outputs(static_cast<std::size_t>(samples * TrainerType::output.elements()));
  StepBatch<T, typename TrainerType::Target> const batch{
      .x = in.data(), .targets = wanted.data(), .outputs = outputs.data(), .size = samples};
  trainer.workers().run([&](auto& rank) {
    if (!training) {
      return rank.forward(StepState{}, batch);
    }
    rank.queue_training(StepState{}, batch);
    return rank.collect();
  });
  return outputs;
}

template <class TrainerType>
StepResult golden_step(TrainerType& trainer, Golden const& golden) {
  auto const x = golden.values<typename TrainerType::T>("x");
  auto const targets = golden.values<typename TrainerType::Target>("targets");
  return trainer.step(x, targets);
}

template <class TrainerType>
TrainerOptions golden_options(Golden const& golden, Optimizer optimizer) {
  return {.batch = static_cast<int>(static_cast<std::int64_t>(golden.values("x").size()) /
                                    TrainerType::input.elements()),
          .optimizer = optimizer,
          .threads_per_device = 1};
}

inline Sgd golden_sgd() {
  return {.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 5e-4F};
}

/// Outputs and losses in both modes, every gradient and every statistic of the first step.
template <class TrainerType>
void check_first_step(Golden const& golden) {
  using T = typename TrainerType::T;
  double const bound = golden.bound<T>();
  TrainerType trainer{golden_options<TrainerType>(golden, golden_sgd())};
  load_initial(trainer, golden);

  auto const evaluated = outputs_of(trainer, golden, "eval.x", "eval.targets", false);
  check_close<T>("eval.outputs", evaluated, golden.values("eval.outputs"),
                 golden.values("terms.outputs"), bound);
  double const scale = largest(golden.values("terms.outputs"));  // a loss changes with its outputs
  using Target = typename TrainerType::Target;
  TensorDataset<Target> const data{TrainerType::input, golden.values<float>("eval.x"),
                                   golden.values<Target>("eval.targets"),
                                   static_cast<int>(golden.values("eval.targets").size() / 4)};
  double const loss = trainer.evaluate(data).loss;
  check_close<double>("eval.loss", {&loss, 1}, golden.values("eval.loss"), scale, bound);
  std::vector<float> const predicted = trainer.predict(data);
  check_close<float>("predict", predicted, golden.values("eval.outputs"),
                     golden.values("terms.outputs"),
                     bound + static_cast<double>(std::numeric_limits<float>::epsilon()));

  StepResult const first = golden_step(trainer, golden);
  check_close<double>("train.loss", {&first.loss, 1}, golden.values("train.loss"), scale, bound);
  int frozen = 0;
  for (NamedParameter<T> const& p : trainer.parameters()) {
    if (p.frozen) {
      ++frozen;
      check_close<T>(p.name, p.value, golden.values(p.name), 1.0, 0.0);
    } else if (p.role == Role::weight) {
      check_close<T>("gradient." + p.name, p.gradient, golden.values("gradient." + p.name),
                     golden.values("terms." + p.name), bound);
    } else {
      auto const golden_values = golden.values("statistic." + p.name);
      check_close<T>("statistic." + p.name, p.value, golden_values, 1.0 + largest(golden_values),
                     bound);
    }
  }
  CHECK(frozen == (TrainerType::graph.parameter[2].frozen ? 6 : 0));

  load_initial(trainer, golden);
  auto const trained = outputs_of(trainer, golden, "x", "targets", true);
  check_close<T>("train.outputs", trained, golden.values("train.outputs"), scale, bound);
}

/// Five losses of each optimizer, from load_weights(); after those of Sgd all parameters too.
/// Five steps amplify rounding up to about a thousandfold: 1e-12; run it in double.
template <class TrainerType>
void check_five_steps(Golden const& golden) {
  static_assert(std::is_same_v<typename TrainerType::T, double>);
  struct Run {
    char const* name;
    Optimizer optimizer;
  };
  Run const runs[] = {
      {"sgd", golden_sgd()},
      {"nesterov",
       Sgd{.learning_rate = 0.05F, .momentum = 0.9F, .weight_decay = 5e-4F, .nesterov = true}},
      {"adam", Adam{.learning_rate = 0.01F, .weight_decay = 5e-4F}},
      {"adamw", AdamW{.learning_rate = 0.01F, .weight_decay = 0.02F}}};
  for (Run const& run : runs) {
    TrainerType trainer{golden_options<TrainerType>(golden, run.optimizer)};
    trainer.load_weights(golden.path());
    std::vector<double> losses;
    for (int step = 0; step < 5; ++step) {
      losses.push_back(golden_step(trainer, golden).loss);
    }
    check_close<double>(std::string{"losses."} + run.name, losses,
                        golden.values(std::string{"losses."} + run.name), 1.0, 1e-12);
    if (std::string{run.name} == "sgd") {
      for (NamedParameter<double> const& p : trainer.parameters()) {
        check_close<double>("sgd." + p.name, p.value, golden.values("sgd." + p.name), 1.0, 1e-12);
      }
      auto const outputs = outputs_of(trainer, golden, "eval.x", "eval.targets", false);
      check_close<double>("sgd.outputs", outputs, golden.values("sgd.outputs"), 1.0, 1e-12);
    }
  }
}

}  // namespace tandem::test
