// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// tandem's side of parity.py: trains a network for some steps and writes down what came of it.
///
/// A unit registers its networks by name: `Case const net{"net", &run<Net>};`.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

namespace tandem::bench::parity {

/// What is asked for on the command line.
struct Settings {
  std::string precision;
  std::string folder;  ///< start, step and end.safetensors are written there
  int steps = 0;
  TrainerOptions options;
};

/// A network that can be asked for.
struct Case {
  char const* name;
  void (*run)(Settings const&);

  Case(char const* called, void (*function)(Settings const&)) : name{called}, run{function} {
    all().push_back(*this);
  }
  static std::vector<Case>& all() {
    static std::vector<Case> cases;
    return cases;
  }
};

/// Samples of numbers that float holds, so that they are the same in each precision. A target is a
/// label below the number of outputs, or a number in [0, 1). A Dataset, too.
template <class T, class TargetType>
struct Samples {
  using Target = TargetType;

  Samples(int count, Shape in, Shape out, int per_sample)
      : sample{in},
        each{per_sample},
        x(static_cast<std::size_t>(count * in.elements())),
        y(static_cast<std::size_t>(count * per_sample)) {
    auto const range = std::is_integral_v<Target> ? static_cast<float>(out.elements()) : 1.0F;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<T>(2 * draw(i, 0) - 1);
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = static_cast<Target>(draw(i, 1) * range);
    }
  }

  [[nodiscard]] std::int64_t size() const {
    return static_cast<std::int64_t>(x.size()) / sample.elements();
  }
  [[nodiscard]] Shape shape() const { return sample; }
  [[nodiscard]] int targets() const { return each; }
  void read(std::int64_t index, std::span<float> to, std::span<Target> target) const {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = static_cast<float>(x[static_cast<std::size_t>(index) * to.size() + i]);
    }
    for (std::size_t i = 0; i < target.size(); ++i) {
      target[i] = y[static_cast<std::size_t>(index) * target.size() + i];
    }
  }

  Shape sample;
  int each;
  std::vector<T> x;
  std::vector<Target> y;

 private:
  static float draw(std::size_t i, std::uint64_t which) {
    return uniform(philox(1, RandomUse::user, i, which).word[0]);
  }
};

/// x (samples, …), y (samples, targets), and the gradients by the parameters' names.
template <class Data, class T>
void write_step(std::string const& path, Data const& data,
                std::vector<NamedParameter<T>> const& parameters) {
  auto const shape = [&](Shape const& each, bool of_samples) {
    std::vector<std::int64_t> extents(of_samples ? 1 : 0, data.size());
    extents.insert(extents.end(), each.extent, each.extent + each.rank);
    return extents;
  };
  std::vector<TensorView> tensors{
      {"x", dtype_of<T>, shape(data.sample, true), std::as_bytes(std::span{data.x})},
      {"y", dtype_of<typename Data::Target>, shape(vector_shape(data.each), true),
       std::as_bytes(std::span{data.y})}};
  for (NamedParameter<T> const& p : parameters) {
    if (p.role == Role::weight && !p.frozen) {
      tensors.push_back({p.name, dtype_of<T>, shape(p.shape, false), std::as_bytes(p.gradient)});
    }
  }
  write_safetensors(path, tensors);
}

/// Trains, writes the checkpoints of before and after and the first step's data and gradients, and
/// prints a line of JSON: the losses, that of all samples in evaluation, and the dropouts' places.
template <class Net, class S, class Backend, class LossType>
void run_on(Settings const& settings) {
  using Run = Trainer<Net, S, Backend, LossType>;
  using T = typename Run::T;
  Run trainer{settings.options};
  int const batch = settings.options.batch;
  Samples<T, typename LossType::Target> const data{batch * settings.steps, Run::input, Run::output,
                                                   LossType::targets(Run::output)};
  trainer.save(settings.folder + "/start.safetensors");
  std::printf("{\"losses\": [");
  for (int step = 0; step < settings.steps; ++step) {
    auto const part = [&](auto const& all) {
      std::size_t const each = all.size() / static_cast<std::size_t>(settings.steps);
      return std::span{all}.subspan(static_cast<std::size_t>(step) * each, each);
    };
    StepResult const result =
        trainer.step(std::vector<T>(part(data.x).begin(), part(data.x).end()), part(data.y));
    std::printf("%s%.17g", step > 0 ? ", " : "", result.loss);
    if (step == 0) {
      write_step(settings.folder + "/step.safetensors", data, trainer.parameters());
    }
  }
  trainer.save(settings.folder + "/end.safetensors");
  std::printf("], \"evaluation\": %.17g, \"dropouts\": [", trainer.evaluate(data).loss);
  char const* comma = "";
  for (int n = 0; n < Run::graph.nodes; ++n) {
    if (Run::graph.node[n].layer == LayerKind::dropout) {
      std::printf("%s%d", std::exchange(comma, ", "), n);
    }
  }
  std::printf("]}\n");
}

/// In fp64 by the portable kernels, in fp32 by oneDNN's where the program has them.
template <class Net, class S = SingleDevice<>, class LossType = SoftmaxCrossEntropy<>>
void run(Settings const& settings) {
  if (settings.precision == "fp64") {
    run_on<Net, S, BasicHost<Portable, Fp64>, LossType>(settings);
  } else {
    run_on<Net, S, Host, LossType>(settings);
  }
}

}  // namespace tandem::bench::parity
