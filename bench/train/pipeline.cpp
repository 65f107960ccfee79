// SPDX-License-Identifier: Apache-2.0

/// @file
/// Pipelines of GoogLeNet on two devices: measured steps against the makespan that the schedule's
/// simulator predicts from measured passes.
///
///   bench_pipeline [--batch 32] [--rounds 5]
///
/// Each device has one thread. All strategies take turns; medians. "alone" predicts from passes
/// that ran while the other device waited, "together" from those of the pipeline itself, as traced.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tandem/schedule/time/simulate.hpp>
#include <tandem/tandem.hpp>

#include "flags.hpp"

namespace {

using namespace tandem;

struct Net : models::GoogLeNet<10> {};
constexpr int microbatches = 8;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0.0 : values[values.size() / 2];
}

/// Data that costs nothing to make.
struct Samples {
  explicit Samples(int batch)
      : x(static_cast<std::size_t>(batch) * 3 * 32 * 32), y(static_cast<std::size_t>(batch)) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = 0.01F * static_cast<float>(i % 199) - 1.0F;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = static_cast<std::int32_t>(i % 10);
    }
  }
  std::vector<float> x;
  std::vector<std::int32_t> y;
};

/// Medians of the passes of each stage, in microseconds.
std::vector<ActionCosts> costs_of(Trace const& trace, int stages) {
  std::map<std::string, std::vector<double>> seen;
  for (TraceEvent const& event : trace.events) {
    if (event.lane == Lane::compute) {
      seen[event.name.substr(0, 2)].push_back(event.end_us - event.begin_us);
    }
  }
  std::vector<ActionCosts> costs;
  for (int s = 0; s < stages; ++s) {
    auto const of = [&](char const* kind) {
      return static_cast<Ticks>(median(seen[std::to_string(s) + kind]));
    };
    costs.push_back({.forward = of("F"),
                     .input_gradient = of("I"),
                     .weight_gradient = of("W"),
                     .backward = seen.contains(std::to_string(s) + "B") ? of("B") : Ticks{-1}});
  }
  return costs;
}

/// A strategy at work.
class Competitor {
 public:
  virtual ~Competitor() = default;
  virtual double step() = 0;  ///< seconds
  virtual std::vector<ActionCosts> profile() = 0;
  [[nodiscard]] virtual double predict(std::vector<ActionCosts> const& costs) const = 0;
  [[nodiscard]] virtual std::string memory() const = 0;

  char const* name = "";
  bool splits_backward = false;
  std::vector<double> seconds{};
};

template <class S>
class Strategist final : public Competitor {
 public:
  explicit Strategist(int batch)
      : data_{batch},
        trainer_{{.batch = batch,
                  .optimizer = Sgd{.learning_rate = 0.01F, .momentum = 0.9F},
                  .threads_per_device = 1}} {
    step();
  }
  double step() override {
    auto const start = std::chrono::steady_clock::now();
    trainer_.step(data_.x, data_.y);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::vector<ActionCosts> profile() override {
    return costs_of(trainer_.trace_step(data_.x, data_.y), stages);
  }
  [[nodiscard]] double predict(std::vector<ActionCosts> const& costs) const override {
    if constexpr (stages > 1) {
      return 1e-6 * static_cast<double>(
                        simulate(Whole::table, Whole::map, {.of_stage = costs.data()}).makespan);
    } else {
      return 0.0;
    }
  }
  [[nodiscard]] std::string memory() const override {
    std::string text;
    for (int d = 0; d < Whole::devices; ++d) {
      MemoryReport const report = trainer_.memory(d);
      text += (d > 0 ? " + " : "") +
              std::to_string((report.kept + report.recomputed + report.transient) / 1000000) +
              " MB";
    }
    return text;
  }

 private:
  using Whole = typename Trainer<Net, S, Host>::ProgramType;
  static constexpr int stages = Whole::map.stages;

  Samples data_;
  Trainer<Net, S, Host> trainer_;
};

template <class S>
void add(std::vector<std::unique_ptr<Competitor>>& all, char const* name, int batch,
         bool splits = false) {
  all.push_back(std::make_unique<Strategist<S>>(batch));
  all.back()->name = name;
  all.back()->splits_backward = splits;
}

}  // namespace

int main(int argc, char** argv) try {
  bench::Flags const flags{argc, argv, {"batch", "rounds"}};
  int const batch = flags.number("batch", 32);
  int const rounds = flags.number("rounds", 5);
  std::vector<std::unique_ptr<Competitor>> all;
  add<SingleDevice<Microbatches<microbatches>>>(all, "one device", batch);
  add<ModelParallel<Split<5>, Split<9>, Microbatches<microbatches>>>(all, "model parallel", batch);
  add<Pipeline<GPipe, microbatches, Split<5>, Split<9>>>(all, "gpipe", batch);
  add<Pipeline<OneFOneB, microbatches, Split<5>, Split<9>>>(all, "one_f_one_b", batch);
  add<Pipeline<ZeroBubbleH1, microbatches, Split<5>, Split<9>>>(all, "zero_bubble_h1", batch, true);
  add<Pipeline<OneFOneB, microbatches, Split<5>, Split<9>, Checkpoint<Boundaries>>>(
      all, "one_f_one_b, checkpointed", batch);
  for (int round = 0; round < rounds; ++round) {
    for (auto& competitor : all) {
      competitor->seconds.push_back(competitor->step());
    }
  }
  std::vector<ActionCosts> const alone = all[1]->profile();
  double const one = median(all[0]->seconds);
  std::printf("GoogLeNet, batch %d in %d microbatches, one thread a device, medians of %d\n", batch,
              microbatches, rounds);
  std::printf("%-27s %8s %8s %9s %9s  %s\n", "", "s/step", "speedup", "alone", "together",
              "activations");
  for (auto& competitor : all) {
    double const measured = median(competitor->seconds);
    double const from_alone = competitor->splits_backward ? 0.0 : competitor->predict(alone);
    double const together = competitor->predict(competitor->profile());
    std::printf("%-27s %8.3f %8.2f %9.2f %9.2f  %s\n", competitor->name, measured, one / measured,
                from_alone / measured, together / measured, competitor->memory().c_str());
  }
} catch (std::exception const& error) {
  std::fprintf(stderr, "bench_pipeline: %s\n", error.what());
  return 1;
}
