// SPDX-License-Identifier: Apache-2.0
// Rates that are no finite numbers are found before a parameter meets them, weights that are none
// before a file does.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace check_rates_test {

using test::contains;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

std::string refusal(TrainerOptions const& options) {
  return test::message<ContractError>([&] { check_rates(options); });
}

TEST_CASE("a rate that is not finite, or out of range, is refused by name") {
  for (float const bad : {nan, inf, -inf, -0.1F}) {
    INFO(bad);
    CHECK(contains(refusal({.optimizer = Sgd{.learning_rate = bad}}),
                   "TrainerOptions: learning_rate is " + detail::shown(double{bad}) +
                       "; give a finite number of 0 or more"));
    CHECK(contains(refusal({.optimizer = Adam{.learning_rate = bad}}), "learning_rate is"));
    CHECK(contains(refusal({.optimizer = Sgd{.momentum = bad}}), ": momentum is"));
    CHECK(contains(refusal({.optimizer = Sgd{.weight_decay = bad}}), ": weight_decay is"));
    CHECK(contains(refusal({.optimizer = AdamW{.weight_decay = bad}}), ": weight_decay is"));
    CHECK(contains(refusal({.optimizer = AdamW{.epsilon = bad}}), ": epsilon is"));
    CHECK(contains(refusal({.optimizer = AdamW{.beta1 = bad}}),
                   "; give a number from 0 to less than 1"));
    CHECK(contains(refusal({.optimizer = Adam{.beta2 = bad}}), ": beta2 is"));
    CHECK(contains(refusal({.schedule = StepDecay{.factor = bad}}), ": StepDecay::factor is"));
    CHECK(contains(refusal({.schedule = Halvings{.factor = bad}}), ": Halvings::factor is"));
    CHECK(contains(refusal({.schedule = Cosine{.final = bad}}), ": Cosine::final is"));
    CHECK(contains(refusal({.groups = {{.pattern = "*.bias", .learning_rate_scale = bad}}}),
                   ": learning_rate_scale of group '*.bias' is"));
    CHECK(contains(refusal({.groups = {{.pattern = "*", .weight_decay = bad}}}),
                   ": weight_decay of group '*' is"));
    CHECK(contains(refusal({.clip_value = double{bad}}), ": clip_value is"));
    CHECK(contains(refusal({.groups = {{.pattern = "*", .clip_value = double{bad}}}}),
                   ": clip_value of group '*' is"));
    CHECK(contains(refusal({.optimizer = own_optimizer<Host>(Lion{.learning_rate = bad})}),
                   ": learning_rate is"));
    CHECK(contains(refusal({.optimizer = own_optimizer<Host>(Lion{.weight_decay = bad})}),
                   ": weight_decay is"));
    CHECK(contains(refusal({.groups = {{.pattern = "*", .clip_norm = double{bad}}}}),
                   ": clip_norm of group '*' is"));
    CHECK(contains(refusal({.groups = {{.pattern = "*", .gradient_scale = bad}}}),
                   ": gradient_scale of group '*' is"));
  }
  CHECK(contains(refusal({.groups = {{.pattern = "*", .below_axes = -1}}}),
                 ": below_axes of group '*' is -1; give 0"));
  CHECK(contains(refusal({.optimizer = Adam{.beta2 = 1.0F}}), ": beta2 is 1;"));
  CHECK(contains(refusal({.optimizer = Sgd{.nesterov = true}}), "give a momentum above 0"));
  CHECK(contains(refusal({.clip_norm = double{nan}}), ": clip_norm is"));
  CHECK(contains(refusal({.schedule = StepDecay{.every = 0}}), "StepDecay: `every` must be"));
  CHECK(contains(refusal({.schedule = Cosine{.steps = 0}}), "Cosine: `steps` must be"));
  CHECK(contains(refusal({.schedule = {Constant{}, -1}}), "warm-up"));
  CHECK_NOTHROW(check_rates({}));
  CHECK_NOTHROW(check_rates({.optimizer = Adam{.learning_rate = 0.0F, .epsilon = 0.0F},
                             .schedule = {Cosine{.steps = 10}, 5},
                             .groups = {{.pattern = "*", .weight_decay = 0.0F}}}));
}

struct WithoutDecay {
  float learning_rate = 0.1F;
  static constexpr std::string_view name = "WithoutDecay";
  template <class V>
  V next(V p, V g, auto const& settings) const {
    return p - V{settings.learning_rate} * g;
  }
};

TEST_CASE("a group's weight decay of an optimizer that has none is refused") {
  std::vector<ParameterGroup> const groups = {{.pattern = "*.bias", .weight_decay = 0.0F}};
  CHECK(refusal({.optimizer = own_optimizer<Host>(WithoutDecay{}), .groups = groups}) ==
        "TrainerOptions: weight_decay of group '*.bias' is given, but the optimizer WithoutDecay "
        "has none; leave it out");
  CHECK_NOTHROW(check_rates({.optimizer = own_optimizer<Host>(Lamb{}), .groups = groups}));
}

TEST_CASE("the rate of each step: one that overflows is refused with its step") {
  TrainerOptions options{.optimizer = Sgd{.learning_rate = 0.5F},
                         .schedule = StepDecay{.every = 2, .factor = 1e30}};
  CHECK(learning_rate_at(options, 1) == 0.5);
  CHECK(learning_rate_at(options, 3) == 0.5e30);
  std::string text = test::message<ContractError>([&] { learning_rate_at(options, 4); });
  CHECK(contains(text, "step 4: the learning rate is 5e+59, of the schedule's factor 1e+60, "));
  CHECK(
      contains(text, "and for some parameters no finite number of 0 or more; nothing has changed"));
  options.groups = {{.pattern = "*", .learning_rate_scale = 1e10F}};
  CHECK(contains(test::message<ContractError>([&] { learning_rate_at(options, 2); }), "step 2: "));
  CHECK(learning_rate_at(options, 1) == 0.5);
}

using Two = Trainer<test::PlainNet, DataParallel<2>, BasicHost<Portable>>;
constexpr Shape shape = Two::input;

TEST_CASE("a trainer refuses rates, and steps at rates, that would make weights nan") {
  test::Watchdog const watchdog{"rates"};
  CHECK(contains(test::message<ContractError>(
                     [] { Two const trainer{{.optimizer = Sgd{.learning_rate = nan}}}; }),
                 "learning_rate is nan"));
  TrainerOptions const options{.batch = 8,
                               .schedule = StepDecay{.every = 2, .factor = 1e38},
                               .groups = {{.pattern = "3.bias", .learning_rate_scale = 1e3F}},
                               .shuffle = false,
                               .threads_per_device = 1};
  Two trainer{options};
  Two untouched{options};
  std::string const text =
      test::message<ContractError>([&] { trainer.train(test::dataset(shape, 3, 32), 0); });
  CHECK(contains(text, "step 2: the learning rate is 1e+36, of "));
  CHECK(trainer.position().step == 2);
  CHECK(trainer.position().position == 16);
  untouched.train(test::dataset(shape, test::Samples<float>{shape, 3, 16}), 0);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
  test::TemporaryFolder const folder;
  CHECK_NOTHROW(trainer.save(folder.file("x")));  // the work so far
}

TEST_CASE("weights that are not finite do not replace a good file, unless that is asked for") {
  test::Watchdog const watchdog{"weights that are not finite"};
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  Two trainer{{.batch = 8, .optimizer = Adam{}, .threads_per_device = 1}};
  trainer.save(path);
  std::string const good = test::content(path);
  for (float const bad : {nan, inf, -inf}) {
    for (bool const state : {false, true}) {
      auto const parameters = trainer.parameters();
      std::span<float> const values =
          detail::writable(state ? parameters[3].states[1] : parameters[3].value);
      float const before = std::exchange(values[2], bad);
      std::string const text = test::message<FileError>([&] { trainer.save(path); });
      CHECK(contains(text, "'" + path + "': tensor '" + (state ? "optimizer.exp_avg_sq." : "") +
                               "3.bias' is inf or nan at element 2, so training has diverged; "
                               "nothing was written: go back to an earlier checkpoint, or give "
                               "NonFinite::written to save it all the same"));
      if (!state) {
        CHECK_THROWS_AS(trainer.export_model(path), FileError);
      }
      CHECK(test::content(path) == good);
      CHECK(folder.entries() == 1);
      trainer.save(folder.file("bad"), NonFinite::written);
      trainer.export_model(folder.file("bad"), NonFinite::written);
      std::filesystem::remove(folder.file("bad"));
      values[2] = before;
    }
  }
  trainer.save(path);
  CHECK(test::content(path) == good);
}

TEST_CASE("every number's exponent is looked at, in odd numbers of them, too") {
  for (std::size_t count = 0; count < 9; ++count) {
    std::vector<float> floats(count, std::numeric_limits<float>::max());
    std::vector<double> doubles(count, -std::numeric_limits<double>::max());
    auto const check = [&](auto const& values) {
      auto const size = static_cast<std::int64_t>(values.size());
      std::vector<TensorView> const tensors{
          {"t",
           dtype_of<std::decay_t<decltype(values[0])>>,
           {size},
           std::as_bytes(std::span{values})},
          {"n", Dtype::I64, {}, std::as_bytes(std::span{"\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8})}};
      check_finite("path", tensors);
    };
    CHECK_NOTHROW(check(floats));
    CHECK_NOTHROW(check(doubles));
    for (std::size_t i = 0; i < count; ++i) {
      for (float const bad : {nan, inf, -inf}) {
        std::string const where = "at element " + std::to_string(i) + ",";
        auto more = floats;
        more[i] = bad;
        CHECK(contains(test::message<FileError>([&] { check(more); }), where));
        auto wide = doubles;
        wide[i] = double{bad};
        CHECK(contains(test::message<FileError>([&] { check(wide); }), where));
      }
    }
  }
}

}  // namespace check_rates_test
}  // namespace tandem
