// SPDX-License-Identifier: Apache-2.0
// Optimizers, schedules, clipping and parameter groups against slow scalar references, written from
// the equations, on the gradients that the trainer itself had. All in double.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace update_test {

struct NormNet
    : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>>, BatchNorm2d<Momentum<1, 4>>, ReLU,
                                         Flatten, Linear<3>>> {};
using Norm = Trainer<NormNet, SingleDevice<Microbatches<2>>, BasicHost<Portable, Fp64>>;

/// Settings of one parameter in one step.
struct Settings {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  bool frozen = false;
  double clip_norm = 0.0;  // of its own, which no other group here has; 0: the trainer's
  double gradient_scale = 1.0;
};

/// θ and its moments; g is the gradient after clipping, t the step from 1.
struct Scalar {
  double theta = 0.0;
  double first = 0.0;
  double second = 0.0;

  void update(Sgd const& o, double g, Settings const& s, std::int64_t /*t*/) {
    g = g + s.weight_decay * theta;
    first = double{o.momentum} * first + g;  // v_t = μ v_{t-1} + g_t
    theta = theta - s.learning_rate * (o.nesterov ? g + double{o.momentum} * first : first);
  }
  void update(Adam const& o, double g, Settings const& s, std::int64_t t) {
    adam(o, g + s.weight_decay * theta, s, t);
  }
  void update(AdamW const& o, double g, Settings const& s, std::int64_t t) {
    theta = theta - s.learning_rate * s.weight_decay * theta;
    adam(o, g, s, t);
  }

 private:
  // Algorithm 1 of arXiv:1412.6980.
  void adam(auto const& o, double g, Settings const& s, std::int64_t t) {
    double const b1 = o.beta1;
    double const b2 = o.beta2;
    first = b1 * first + (1 - b1) * g;
    second = b2 * second + (1 - b2) * g * g;
    double const m = first / (1 - std::pow(b1, static_cast<double>(t)));
    double const v = second / (1 - std::pow(b2, static_cast<double>(t)));
    theta = theta - s.learning_rate * m / (std::sqrt(v) + double{o.epsilon});
  }
};

/// What the reference thinks of one parameter of the network.
using SettingsOf = Settings (*)(std::string const& name, std::int64_t step);

/// Trains six steps with clipping at @p clip (0: none); after each, all parameters must be those of
/// the reference. A step has some 20 operations a parameter, so 1e-13 is a thousand eps.
template <class O>
void check_updates(O const& optimizer, TrainerOptions options, SettingsOf settings_of) {
  options.batch = 10;
  options.optimizer = optimizer;
  options.threads_per_device = 1;
  double const clip = options.clip_norm;
  Norm trainer{std::move(options)};
  auto const parameters = trainer.parameters();
  std::vector<std::vector<Scalar>> reference;
  for (auto const& p : parameters) {
    reference.emplace_back();
    for (double const value : p.value) {
      reference.back().push_back({.theta = value});
    }
  }
  std::map<double, bool> clipped;  // by the bound
  for (std::int64_t step = 0; step < 6; ++step) {
    test::Samples<double> const data{Norm::input, 3, 10, static_cast<std::uint64_t>(step)};
    StepResult const result = trainer.step(data.x, data.y);
    std::map<double, double> squares;  // by the bound
    for (auto const& p : parameters) {
      Settings const settings = settings_of(p.name, step);
      double const bound = settings.clip_norm > 0.0 ? settings.clip_norm : clip;
      for (double const gradient : p.gradient) {
        double const g = gradient * settings.gradient_scale;
        squares[bound] += p.role == Role::weight && !settings.frozen ? g * g : 0.0;
      }
    }
    std::map<double, double> scales;
    for (auto const& [bound, sum] : squares) {
      double const norm = std::sqrt(sum);
      scales[bound] = bound > 0.0 && norm > bound ? bound / norm : 1.0;
      clipped[bound] = clipped[bound] || bound == 0.0 || scales[bound] < 1.0;
    }
    double const norm = std::sqrt(squares[clip]);
    CHECK(std::fabs(result.gradient_norm - (clip > 0.0 ? norm : 0.0)) <= 1e-14 * norm);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      Settings const settings = settings_of(parameters[p].name, step);
      double const scale =
          settings.gradient_scale * scales[settings.clip_norm > 0.0 ? settings.clip_norm : clip];
      std::vector<double> wanted;
      for (std::size_t i = 0; i < reference[p].size(); ++i) {
        Scalar& scalar = reference[p][i];
        double const g = parameters[p].gradient[i];
        if (parameters[p].role == Role::statistic) {
          scalar.theta = 0.75 * scalar.theta + 0.25 * g;
        } else if (!settings.frozen) {
          scalar.update(optimizer, g * scale, settings, step + 1);
        }
        wanted.push_back(scalar.theta);
      }
      INFO("step " << step << ", " << parameters[p].name);
      CHECK(test::relative_error(parameters[p].value, std::span{wanted}) <= 1e-13);
    }
  }
  for (auto const& bound : clipped) {
    INFO("clipped to " << bound.first);
    CHECK(bound.second);
  }
}

TEST_CASE("Sgd: plain, momentum, Nesterov, weight decay, clipping") {
  SettingsOf const plain = [](std::string const&, std::int64_t) {
    return Settings{.learning_rate = double{0.1F}};
  };
  SettingsOf const decayed = [](std::string const&, std::int64_t) {
    return Settings{.learning_rate = double{0.1F}, .weight_decay = double{0.02F}};
  };
  check_updates(Sgd{.learning_rate = 0.1F}, {}, plain);
  check_updates(Sgd{.learning_rate = 0.1F, .momentum = 0.9F}, {}, plain);
  check_updates(Sgd{.learning_rate = 0.1F, .momentum = 0.9F, .nesterov = true}, {}, plain);
  check_updates(Sgd{.learning_rate = 0.1F, .momentum = 0.8F, .weight_decay = 0.02F},
                {.clip_norm = 0.3}, decayed);
}

TEST_CASE("Adam and AdamW: their weight decays differ") {
  SettingsOf const decayed = [](std::string const&, std::int64_t) {
    return Settings{.learning_rate = double{0.01F}, .weight_decay = double{0.05F}};
  };
  check_updates(Adam{.learning_rate = 0.01F, .weight_decay = 0.05F}, {}, decayed);
  check_updates(AdamW{.learning_rate = 0.01F, .weight_decay = 0.05F}, {}, decayed);
  check_updates(AdamW{.learning_rate = 0.01F,
                      .beta1 = 0.8F,
                      .beta2 = 0.95F,
                      .epsilon = 1e-3F,
                      .weight_decay = 0.05F},
                {.clip_norm = 0.3}, decayed);
}

TEST_CASE("a schedule's factor multiplies the learning rate, from step 0") {
  check_updates(Sgd{.learning_rate = 0.1F}, {.schedule = {StepDecay{.every = 2, .factor = 0.5}, 2}},
                [](std::string const&, std::int64_t step) {
                  double const factor[] = {0.5, 1.0, 1.0, 1.0, 0.5, 0.5};
                  return Settings{.learning_rate = double{0.1F} * factor[step]};
                });
}

TEST_CASE("parameter groups: patterns, the last match counts, frozen, other weight decay") {
  check_updates(
      Sgd{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.02F},
      {.clip_norm = 0.2,
       .groups = {{.pattern = "*.bias", .weight_decay = 0.0F},
                  {.pattern = "0.*", .learning_rate_scale = 0.5F},
                  {.pattern = "1.weight", .frozen = true}}},
      [](std::string const& name, std::int64_t) {
        if (name == "0.weight" || name == "0.bias") {  // the second group, whole: decay is back
          return Settings{.learning_rate = 0.5 * double{0.1F}, .weight_decay = double{0.02F}};
        }
        if (name == "1.weight") {
          return Settings{.frozen = true};
        }
        bool const bias = name == "1.bias" || name == "4.bias";
        return Settings{.learning_rate = double{0.1F}, .weight_decay = bias ? 0.0 : double{0.02F}};
      });
}

TEST_CASE("parameter groups: by the number of axes, as nanoGPT's weight decay") {
  check_updates(
      AdamW{.learning_rate = 0.01F, .weight_decay = 0.05F},
      {.groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2},
                  {.pattern = "0.*", .learning_rate_scale = 0.5F, .below_axes = 2}}},
      [](std::string const& name, std::int64_t) {
        if (name == "0.bias") {  // the second group, whole
          return Settings{.learning_rate = 0.5 * double{0.01F}, .weight_decay = double{0.05F}};
        }
        bool const matrix = name == "0.weight" || name == "4.weight";  // of 4 and of 2 axes
        return Settings{.learning_rate = double{0.01F},
                        .weight_decay = matrix ? double{0.05F} : 0.0};
      });
}

TEST_CASE("parameter groups: each is clipped by its own norm, the others by the trainer's") {
  SettingsOf const settings = [](std::string const& name, std::int64_t) {
    Settings own{.learning_rate = double{0.1F}, .weight_decay = double{0.02F}};
    if (name == "0.weight" || name == "0.bias") {
      own.clip_norm = 0.01;
    } else if (name == "4.bias") {
      own.clip_norm = 0.05;
      own.gradient_scale = 3.0;
    } else if (name == "4.weight") {
      own.gradient_scale = 0.5;
    }
    return own;
  };
  std::vector<ParameterGroup> const groups = {
      {.pattern = "4.*", .gradient_scale = 0.5F},
      {.pattern = "0.*", .clip_norm = 0.01},
      {.pattern = "4.bias", .clip_norm = 0.05, .gradient_scale = 3.0F}};
  check_updates(Sgd{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.02F},
                {.clip_norm = 0.1, .groups = groups}, settings);
  check_updates(Sgd{.learning_rate = 0.1F, .momentum = 0.9F, .weight_decay = 0.02F},
                {.groups = groups}, settings);  // the others are not clipped
}

// After Adam's bias corrections m is g and v is g² in a weight's first update, so it moves by the
// learning rate, however many steps the run has had.
TEST_CASE("a weight that was frozen takes Adam's first step when it is trained") {
  test::Watchdog const watchdog{"a frozen weight's first step"};
  test::TemporaryFolder const folder;
  test::Samples<double> const data{Norm::input, 3, 6};
  for (Optimizer const& optimizer : {Optimizer{Adam{}}, Optimizer{AdamW{.weight_decay = 0.0F}}}) {
    Norm frozen{{.batch = 6,
                 .optimizer = optimizer,
                 .groups = {{.pattern = "4.*", .frozen = true}},
                 .seed = 3}};
    for (int step = 0; step < 4; ++step) {
      frozen.step(data.x, data.y);
    }
    frozen.save(folder.file("frozen"));
    Norm trainer{{.batch = 6, .optimizer = optimizer, .seed = 3}};
    trainer.load(folder.file("frozen"));
    std::vector<std::vector<double>> before;
    for (auto const& p : trainer.parameters()) {
      before.emplace_back(p.value.begin(), p.value.end());
    }
    trainer.step(data.x, data.y);
    auto const after = trainer.parameters();
    for (std::size_t p = 0; p < after.size(); ++p) {
      for (std::size_t i = 0; after[p].name.starts_with("4.") && i < before[p].size(); ++i) {
        double const g = std::fabs(after[p].gradient[i]);
        double const moved = std::fabs(after[p].value[i] - before[p][i]);
        CHECK(std::fabs(moved - double{0.001F} * g / (g + double{1e-8F})) <= 1e-12);
      }
    }
  }
}

/// Its state is the step that it was told.
struct StepSeen {
  float learning_rate = 0.0F;
  static constexpr std::string_view name = "StepSeen";
  static constexpr std::string_view state_names[] = {"step_seen"};
  template <class V>
  TANDEM_HOST_DEVICE V next(V const& p, V const& /*g*/, V (&state)[1], auto const& s) const {
    state[0] = V{static_cast<decltype(s.learning_rate)>(s.step)};
    return p;
  }
};

/// Trains a PlainNet for @p steps from checkpoint @p from, where the group @p frozen is, and writes
/// the next checkpoint. @returns what "0.weight", "0.bias", "3.weight" and "3.bias" saw last
template <class S>
std::vector<float> steps_seen(test::TemporaryFolder const& folder, std::string const& from,
                              std::string const& frozen, int steps) {
  using Plain = Trainer<test::PlainNet, S, BasicHost<Portable>>;
  TrainerOptions options{.batch = 6, .threads_per_device = 1};
  if (!frozen.empty()) {
    options.groups = {{.pattern = frozen, .frozen = true}};
  }
  Plain trainer{options, StepSeen{}};
  if (!from.empty()) {
    trainer.load(from);
  }
  test::Samples<float> const data{Plain::input, 3, 6};
  for (int step = 0; step < steps; ++step) {
    trainer.step(data.x, data.y);
  }
  trainer.save_in(folder.name());
  std::vector<float> seen;
  for (auto const& p : trainer.parameters()) {
    seen.push_back(p.states[0][0]);
  }
  return seen;
}

TEST_CASE("updates of a weight are counted by checkpoints, under other strategies, too") {
  test::Watchdog const watchdog{"updates of a weight"};
  test::TemporaryFolder const folder;
  using Seen = std::vector<float>;
  using Shards = DataParallel<2, ShardedState>;
  using Late = Pipeline<PipeDream, 1, Split<2>, Split<2>>;
  auto const step = [&](char const* number) {
    return folder.file("step-00000" + std::string{number});
  };
  CHECK(steps_seen<SingleDevice<>>(folder, "", "0.*", 3) == Seen{0, 0, 3, 3});
  Safetensors const file = detail::read_tensors(step("3"));
  CHECK(file.find("tandem.updates.0.weight") != nullptr);
  CHECK(file.find("tandem.updates.3.weight") == nullptr);
  CHECK(steps_seen<Shards>(folder, step("3"), "", 2) == Seen{2, 2, 5, 5});
  CHECK(steps_seen<Late>(folder, step("5"), "3.bias", 1) == Seen{3, 3, 6, 5});
  CHECK(steps_seen<SingleDevice<>>(folder, step("6"), "", 1) == Seen{4, 4, 7, 6});
}

TEST_CASE("a pattern that matches nothing is an error that names it") {
  for (char const* const pattern : {"5.*", "0.weights", "weight", ""}) {
    std::string const text = test::message<ContractError>([&] {
      Norm{{.groups = {{.pattern = "*"}, {.pattern = pattern}}}};
    });
    CHECK(text == "parameter group '" + std::string{pattern} +
                      "' matches no trained parameter; names look like '0.weight'");
  }
  CHECK(test::message<ContractError>(
            [&] { Norm{{.groups = {{.pattern = "*.weight", .below_axes = 1}}}}; }) ==
        "parameter group '*.weight' matches no trained parameter of fewer than 1 axes; names look "
        "like '0.weight'");
}

TEST_CASE("'*' stands for any characters, also none") {
  using detail::matches;
  static_assert(matches("*", "") && matches("*", "0.weight") && matches("0.*", "0."));
  static_assert(matches("*.bias", "3.body.0.bias") && !matches("*.bias", "3.bias.x"));
  static_assert(matches("1.*.weight", "1.0.0.weight") && !matches("1.*.weight", "10.0.weight"));
  static_assert(matches("*a*b", "xaab") && matches("*ab", "aab") && !matches("a*b", "ab."));
  static_assert(matches("0.weight", "0.weight") && !matches("0.weight", "0.weight2"));
  static_assert(!matches("", "0.weight") && matches("", "") && matches("**", "x"));
}

}  // namespace update_test
}  // namespace tandem
