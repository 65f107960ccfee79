// SPDX-License-Identifier: Apache-2.0
// What the devices of a PostValidated pipeline do one after another: they go on into the next step
// before the last device's update, only a step behind a wrong guess begins anew, and none waits for
// one that has failed.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <trap_network.hpp>

namespace tandem::test {
namespace post_validated_order_test {

constexpr int microbatches = 4;
constexpr int batch = 8;
constexpr int steps = 7;

/// Forward passes of the first stage and weight gradients of the last one, in training.
std::atomic<int> forwards = 0;
std::atomic<int> weight_gradients = 0;
/// The last stage makes its last weight gradient of the first step when the first stage has begun
/// the second step; or else, much later, gives up.
std::atomic<bool> holds = false;
std::atomic<bool> gave_up = false;

void hold_last() {
  using namespace std::chrono_literals;
  if (weight_gradients.fetch_add(1) + 1 == microbatches && holds) {
    auto const end = std::chrono::steady_clock::now() + 30s;
    while (forwards <= microbatches && !gave_up) {
      gave_up = std::chrono::steady_clock::now() > end;
      std::this_thread::sleep_for(1ms);
    }
  }
}

/// Passes its input times a weight on.
template <int Stage>
struct Station {
  static constexpr std::string_view name = "Station";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape) {
    return Parameters{Parameter{"a", vector_shape(1)}};
  }
  static void forward(auto const& c) {
    forwards += Stage == 0 ? 1 : 0;
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.y[i] = (1 + c.parameter(0)[0]) * c.x[i];
    }
  }
  static void input_gradient(auto const& c) {
    for (std::size_t i = 0; i < c.dy.size(); ++i) {
      c.dx[i] = (1 + c.parameter(0)[0]) * c.dy[i];
    }
  }
  static void weight_gradient(auto const& c) {
    if (Stage == 1) {
      hold_last();
    }
    for (std::size_t i = 0; i < c.x.size(); ++i) {
      c.gradient(0)[0] += c.x[i] * c.dy[i];
    }
  }
};

struct Net
    : Network<Vector<4>, Sequential<Linear<4>, Station<0>, Linear<4>, Station<1>, Linear<3>>> {};

using One = SingleDevice<Microbatches<microbatches>, Reproducible<>>;
using Two = Pipeline<PostValidated<ZeroBubbleH2>, microbatches, Split<2>, Split<3>, Reproducible<>>;

TrainerOptions options(double clip_norm) {
  return {.batch = batch,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .clip_norm = clip_norm,
          .seed = 7,
          .shuffle = false,
          .threads_per_device = 1};
}

/// Every third step has gradients that are so many times larger.
auto rows(float factor = 4.0F) {
  Samples<float> data{vector_shape(4), 3, steps * batch, 5};
  for (std::size_t i = 0; i < data.x.size(); ++i) {
    data.x[i] *= i / 4 / batch % 3 == 2 ? factor : 1.0F;
  }
  return dataset(vector_shape(4), data);
}

template <class T, class D>
void train(T& trainer, D const& data) {
  forwards = weight_gradients = 0;
  trainer.train(data, 0);
}

TEST_CASE("a step begins on the first device before the last one has updated") {
  Watchdog const watchdog{"a step before the update of the last"};
  Trainer<Net, Two, Host> trainer{options(0.0)};
  holds = true;
  gave_up = false;
  train(trainer, rows());
  holds = false;
  CHECK(!gave_up.load());
  CHECK(forwards.load() == steps * microbatches);  // no pass was made again
}

/// The passes of the first device: behind each wrong guess it repeats those before its first
/// backward. A step goes ahead if the one before was as it was taken for, and is not the last.
int expected_forwards(std::vector<double> const& norms, double clip_norm) {
  int wrong = 0;
  bool trusted = true;
  for (std::size_t step = 0; step < norms.size(); ++step) {
    bool const plain = norms[step] <= clip_norm;
    wrong += trusted && step + 1 < norms.size() && !plain ? 1 : 0;
    trusted = plain;
  }
  return steps * microbatches + 3 * wrong;
}

TEST_CASE("passes are repeated behind a wrong guess alone, and behind that one no guess is made") {
  Watchdog const watchdog{"guesses"};
  for (double const clip_norm : {1e-3, 0.7, 1e3}) {
    INFO("clip_norm " << clip_norm);
    std::vector<double> norms;
    Trainer<Net, One, Host> one{options(clip_norm)};
    one.train(rows(), 0, [&](StepReport const& step) { norms.push_back(step.gradient_norm); });
    auto const clipped =
        std::count_if(norms.begin(), norms.end(), [&](double norm) { return norm > clip_norm; });
    CHECK(clipped >= (clip_norm < 0.1 ? steps : clip_norm < 1.0 ? 1 : 0));
    CHECK(clipped <= (clip_norm < 0.1 ? steps : clip_norm < 1.0 ? steps - 2 : 0));
    Trainer<Net, Two, Host> two{options(clip_norm)};
    train(two, rows());
    CHECK(forwards.load() == expected_forwards(norms, clip_norm));
    CHECK(first_difference(two.parameters(), one.parameters()) == "");
  }
}

TEST_CASE("steps whose scaled gradients are not finite are skipped as on one device") {
  Watchdog const watchdog{"skipped steps"};
  TrainerOptions scaled = options(0.7);
  scaled.optimizer = Adam{.learning_rate = 0.01F};
  scaled.average = {.decay = 0.9};
  scaled.loss_scaling = LossScaling{.initial = 0x1p126, .every = 2};
  auto const data = rows(1000.0F);
  std::vector<double> norms;
  int skipped = 0;
  Trainer<Net, One, Host> one{scaled};
  one.train(data, 0, [&](StepReport const& step) {
    norms.push_back(step.gradient_norm);
    skipped += step.skipped ? 1 : 0;
  });
  CHECK(skipped >= 1);
  CHECK(skipped <= steps - 3);
  CHECK(std::any_of(norms.begin(), norms.end(), [](double norm) { return norm <= 0.7; }));
  Trainer<Net, Two, Host> two{scaled};
  train(two, data);
  CHECK(forwards.load() == expected_forwards(norms, 0.7));
  CHECK(first_difference(two.parameters(), one.parameters()) == "");
  CHECK(one.position().scaling == two.position().scaling);
  CHECK(one.evaluate(data).loss == two.evaluate(data).loss);  // by the averages
}

TEST_CASE("steps one by one, traced ones and evaluations between them are as ever") {
  Watchdog const watchdog{"steps one by one"};
  Trainer<Net, One, Host> one{options(0.7)};
  Trainer<Net, Two, Host> two{options(0.7)};
  for (int s = 0; s < 6; ++s) {
    Samples<float> const data{vector_shape(4), 3, batch, std::uint64_t(s)};
    StepResult const a = one.step(data.x, data.y);
    if (s == 3) {
      CHECK(!two.trace_step(data.x, data.y).events.empty());
      continue;
    }
    StepResult const b = two.step(data.x, data.y);
    CHECK(a.loss == b.loss);
    CHECK(a.gradient_norm == b.gradient_norm);
    CHECK(one.evaluate(rows()).loss == two.evaluate(rows()).loss);
  }
  CHECK(first_difference(two.parameters(), one.parameters()) == "");
}

TEST_CASE("so are the steps of tables of one's own") {
  for (char const* const schedule : {"gpipe", "one_f_one_b", "zero_bubble_h1", "zero_bubble_h2"}) {
    for (int const count : {1, 2, 8}) {
      INFO(schedule << ", " << count);
      Watchdog const watchdog{schedule};
      TrainerOptions single = options(0.7);
      single.rows = make_schedule("sequential", 1, count);
      TrainerOptions several = options(0.7);
      several.rows = make_schedule(schedule, 2, count);
      Trainer<Net, One, Host> one{single};
      Trainer<Net, Two, Host> two{several};
      one.train(rows(), 0);
      two.train(rows(), 0);
      CHECK(first_difference(two.parameters(), one.parameters()) == "");
    }
  }
}

/// The message of the error that training on these rows ends with; "" if it does not.
template <class T, class D>
std::string failure(T& trainer, D const& data) {
  try {
    train(trainer, data);
  } catch (NonFiniteLoss const& error) {
    std::string const text = error.what();
    return text.substr(0, text.find("rank"));  // which has the loss
  }
  return "";
}

TEST_CASE("a loss that is not finite ends training where it does on one device") {
  Watchdog const watchdog{"a loss that is not finite"};
  for (int const bad : {0, 1, 3, 4, steps - 1}) {
    INFO("step " << bad);
    Samples<float> data{vector_shape(4), 3, steps * batch, 5};
    data.x[4 * (std::size_t(bad) * batch + 5)] = std::numeric_limits<float>::quiet_NaN();
    auto const all = dataset(vector_shape(4), data);
    Trainer<Net, One, Host> one{options(0.7)};
    Trainer<Net, Two, Host> two{options(0.7)};
    std::string const expected = failure(one, all);
    CHECK(expected != "");
    CHECK(failure(two, all) == expected);
    CHECK(two.position().step == bad);
    CHECK(first_difference(two.parameters(), one.parameters()) == "");
    train(one, rows());  // they go on
    train(two, rows());
    CHECK(first_difference(two.parameters(), one.parameters()) == "");
  }
}

TEST_CASE("a stage that throws ends the training on all devices, however far ahead they are") {
  using Three =
      Trainer<TrapNet,
              Pipeline<PostValidated<ZeroBubbleH2>, microbatches, Split<2>, Split<2>, Split<3>>,
              Host>;
  auto const many = dataset(Three::input, Samples<float>{Three::input, 3, batch * steps});
  for (int victim = 0; victim < 3; ++victim) {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      for (int const call : {1, 4, 5, 9}) {
        Watchdog const watchdog{"a stage of a PostValidated pipeline throws"};
        INFO("rank " << victim << ", call " << call);
        Three trainer{options(1e3)};
        Trap::set(victim, pass, call);
        std::string text;
        try {
          trainer.train(many, 0);
        } catch (RankError const& error) {
          text = error.what();
        }
        Trap::set(-1, Pass::none, 0);
        CHECK(text.starts_with("rank " + std::to_string(victim) + ", at " + std::to_string(victim) +
                               (pass == Pass::forward ? "F" : "I")));
        CHECK_THROWS_AS(trainer.evaluate(many), ContractError);
      }
    }
  }
}

TEST_CASE("several processes are refused: one of them says whether a step follows") {
  ProgramFacts const& facts = program_facts<Trainer<Net, Two, Host>::ProgramType>;
  TrainerOptions several = options(0.0);
  CHECK(checked(facts, several).batch == batch);
  several.world.processes = 2;
  CHECK(message<ContractError>([&] {
          checked(facts, several);
        }).starts_with("TrainerOptions: a PostValidated schedule runs in one process"));
}

TEST_CASE("an epoch that is saved in and gone on with has the bits of one that is not") {
  Watchdog const watchdog{"saved in an epoch"};
  TemporaryFolder const folder;
  TrainerOptions saves = options(0.7);
  saves.checkpoints = {.folder = folder.file("steps"), .every_steps = 3};
  Trainer<Net, Two, Host> whole{options(0.7)};
  whole.train(rows(), 0);
  {
    Trainer<Net, Two, Host> saving{saves};
    saving.train(rows(), 0);
    CHECK(first_difference(saving.parameters(), whole.parameters()) == "");
  }
  Trainer<Net, Two, Host> resumed{saves};
  CHECK(resumed.resume() != "");
  CHECK(resumed.position().step == 6);
  resumed.train(rows(), 0);
  CHECK(first_difference(resumed.parameters(), whole.parameters()) == "");
}

TEST_CASE("the further copy is as large as fits<> counts it") {
  Trainer<Net, Two, Host> trainer{options(0.0)};
  for (int device = 0; device < 2; ++device) {
    DeviceMemory const counted = device_memory<Net, Two, Sgd, Fp32>(batch, device);
    MemoryReport const report = trainer.memory(device);
    CHECK(report.versions == counted.versions);
    CHECK(report.versions == report.parameters + report.optimizer_state);
  }
  using Plain = Pipeline<ZeroBubbleH2, microbatches, Split<2>, Split<3>, Reproducible<>>;
  CHECK(device_memory<Net, Plain, Sgd, Fp32>(batch, 0).versions == 0);
}

}  // namespace post_validated_order_test
}  // namespace tandem::test
