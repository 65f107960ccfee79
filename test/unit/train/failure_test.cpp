// SPDX-License-Identifier: Apache-2.0
// A step that fails: a loss that is no number, a rank that throws, a rank that does not come.
// Nobody waits for ever, and the error names the rank.

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <bad_gradient.hpp>
#include <compare.hpp>
#include <sanitizers.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace failure_test {

using test::contains;
using test::Samples;

using Replicas = Trainer<test::TinyNet, DataParallel<3>, Host>;

TEST_CASE("a loss that is no number names step and rank, and the step has not happened") {
  test::Watchdog const watchdog{"non-finite loss"};
  TrainerOptions const options{.batch = 9,
                               .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
                               .threads_per_device = 1};
  Replicas trainer{options};
  Replicas untouched{options};
  Samples<float> const good{Replicas::input, 5, 9};
  Samples<float> bad = good;
  bad.x[bad.x.size() - 1] = std::numeric_limits<float>::quiet_NaN();  // in rank 2's shard
  trainer.step(good.x, good.y);
  untouched.step(good.x, good.y);

  std::string const text = test::message<NonFiniteLoss>([&] { trainer.step(bad.x, bad.y); });
  CHECK(contains(text,
                 "step 1: the loss of microbatch 2 on rank 2 is not finite, since sample 8 of the "
                 "batch is inf or nan at element " +
                     std::to_string(Replicas::input.elements() - 1) +
                     "; parameters are those of before the step: mend that sample, or leave it "
                     "out"));
  CHECK(trainer.position().step == 1);
  CHECK(test::first_difference(trainer.parameters(), untouched.parameters()) == "");
  for (int rank : {1, 0}) {  // of several the first
    bad.x[static_cast<std::size_t>(3 * rank * Replicas::input.elements())] = bad.x.back();
    CHECK(contains(test::message<NonFiniteLoss>([&] { trainer.step(bad.x, bad.y); }),
                   "step 1: the loss of microbatch " + std::to_string(rank) + " on rank " +
                       std::to_string(rank) + " is not finite, since sample " +
                       std::to_string(3 * rank)));
  }

  trainer.step(good.x, good.y);
  untouched.step(good.x, good.y);
  for (int rank = 0; rank < 3; ++rank) {  // and it leaves no trace in later steps
    CHECK(test::first_difference(trainer.parameters(rank), untouched.parameters()) == "");
  }
}

template <class S>
using OnHost = Trainer<test::CliffNet, S, BasicHost<Portable>>;

TEST_CASE("a gradient that is not finite, of a loss that is, changes nothing") {
  test::check_bad_gradient<OnHost<SingleDevice<Microbatches<2>>>>();
  test::check_bad_gradient<OnHost<DataParallel<2>>>();
}

TEST_CASE("where one of several devices alone knows that its gradient is not finite") {
  test::check_bad_gradient<OnHost<Pipeline<PostValidated<ZeroBubbleH2>, 2, Split<2>, Split<3>>>>();
  test::check_bad_gradient<OnHost<DataParallel<2, ShardedGradients>>>();
  test::check_bad_gradient<OnHost<TensorParallel<2>>>();
}

TEST_CASE("what overflows on the wire, in a pipeline's replicas") {
  test::check_bad_gradient<
      OnHost<Hybrid<DataParallel<2, Wire<Float16>>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>>>(
      1e7F);
}

/// Steps on until one is refused, or until weights are asked for: what then is said.
template <class S>
std::string said_of_late_gradient(int steps) {
  test::Watchdog const watchdog{"a late gradient that is not finite"};
  OnHost<S> trainer{{.batch = 8, .optimizer = Adam{}, .seed = 3, .threads_per_device = 1}};
  Samples<float> const good{trainer.input, 4, 8};
  std::vector<float> const x(good.x.size(), 1e12F);
  std::vector<std::int32_t> const y{0, 1, 2, 3, 0, 1, 2, 3};
  trainer.step(good.x, good.y);
  trainer.step(x, y);
  std::string const said = test::message<NonFiniteLoss>([&] {
    for (int s = 0; s < steps; ++s) {
      trainer.step(good.x, good.y);
    }
    static_cast<void>(trainer.parameters());
  });
  for (auto const& parameter : trainer.parameters()) {
    for (float const value : parameter.value) {
      CHECK(std::isfinite(value));
    }
  }
  trainer.step(good.x, good.y);  // goes on
  return said;
}

TEST_CASE("in an asynchronous pipeline a gradient that is not finite ends the steps behind it") {
  char const* const said = "step 1: the gradient of '0.weight' is not finite, although the loss is";
  for (int const steps : {0, 1, 2, 9}) {
    CAPTURE(steps);
    CHECK(contains(said_of_late_gradient<Pipeline<PipeDream, 1, Split<2>, Split<3>>>(steps), said));
    CHECK(contains(said_of_late_gradient<Pipeline<PipeDream2BW, 2, Split<2>, Split<3>>>(steps),
                   said));
  }
}

struct LineNet : Network<Vector<2>, Sequential<Linear<1>>> {};

/// What training on 40 samples says, if number @p bad is in one sample's input or target.
std::string said_of(float bad, bool in_target, float learning_rate = 0.01F) {
  std::vector<float> x(80, 0.5F);
  std::vector<float> y(40, 1.0F);
  (in_target ? y[21] : x[2 * 21 + 1]) = bad;
  Trainer<LineNet, DataParallel<2>, BasicHost<Portable>, MeanSquaredError> trainer{
      {.batch = 6,
       .optimizer = Sgd{.learning_rate = learning_rate},
       .seed = 3,
       .threads_per_device = 1}};
  TensorDataset<float> const data{vector_shape(2), std::move(x), std::move(y)};
  return test::message<NonFiniteLoss>([&] {
    for (auto epoch : epochs(20)) {
      trainer.train(data, epoch);
    }
  });
}

TEST_CASE("a number in the data that is none is not blamed on the learning rate") {
  test::Watchdog const watchdog{"bad samples"};
  for (float const bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    CHECK(contains(said_of(bad, false),
                   " is not finite, since sample 21 of the dataset is inf or nan at element 1; "
                   "parameters are those of before the step: mend that sample, or leave it out"));
    CHECK(contains(said_of(bad, true),
                   ", since the target of sample 21 of the dataset is inf or nan at element 0; "));
  }
  CHECK(contains(said_of(2.0F, false, 1e30F),
                 " is not finite; parameters are those of before the step: lower the learning "
                 "rate, or set clip_norm"));
}

/// Passes its input on. A number above 100 in it makes a rank throw in forward, above 200 in
/// backward; one below -100 makes it late.
struct Tripwire {
  static constexpr std::string_view name = "Tripwire";
  static constexpr Shape output(Shape in) { return in; }

  static void forward(auto const& call) {
    auto const [least, most] = std::ranges::minmax(call.x);
    if (most > 100 && most < 200) {
      throw std::runtime_error{"tripped in forward"};
    }
    if (least < -100) {
      std::this_thread::sleep_for(std::chrono::milliseconds{600});
    }
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) {
    if (std::ranges::max(call.x) > 200) {
      throw std::runtime_error{"tripped in backward"};
    }
    std::ranges::copy(call.dy, call.dx.begin());
  }
};

struct TrapNet : Network<Vector<4>, Sequential<Linear<4>, Linear<4>, Tripwire, Linear<3>>> {};

/// The layers before the wire are identities, so that it sees the input.
template <class T>
void make_identities(T& trainer) {
  for (auto const& p : trainer.parameters()) {
    std::vector<float> values(p.value.size());
    for (std::size_t i = 0; p.shape.rank == 2 && i < 4 && p.shape[0] == 4; ++i) {
      values[5 * i] = 1.0F;
    }
    trainer.set_parameter(p.name, values);
  }
}

using Three = Trainer<TrapNet, DataParallel<3, BucketBytes<1, 1>>, Host>;

/// The nested exception's message, if it is of type Original.
template <class Original>
std::string original_of(RankError const& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (Original const& original) {
    return original.what();
  } catch (...) {
    return "another type";
  }
  return "nothing nested";
}

TEST_CASE("a rank that throws inside a step ends the step on all ranks") {
  test::Watchdog const watchdog{"a rank throws"};
  for (auto const& [value, sentence] :
       {std::pair{150.0F, "tripped in forward"}, std::pair{250.0F, "tripped in backward"}}) {
    for (int victim = 0; victim < 3; ++victim) {
      Three trainer{{.batch = 6, .threads_per_device = 1}};
      make_identities(trainer);
      Samples<float> samples{Three::input, 3, 6};
      trainer.step(samples.x, samples.y);
      make_identities(trainer);
      samples.x[static_cast<std::size_t>(8 * victim)] = value;
      try {
        trainer.step(samples.x, samples.y);
        FAIL_CHECK("nothing was thrown");
      } catch (RankError const& error) {
        CHECK(error.rank() == victim);
        CHECK(error.what() == "rank " + std::to_string(victim) + ", at 0" +
                                  (value < 200.0F ? "F" : "B") + "0 (microbatch 0): " + sentence);
        CHECK(original_of<std::runtime_error>(error) == sentence);
      }
      std::string const refused =
          test::message<ContractError>([&] { trainer.step(samples.x, samples.y); });
      CHECK(contains(refused,
                     "a rank of this trainer has failed, so its ranks cannot work together any "
                     "more; no parameter was being changed, so save(), export_model() and "
                     "parameters() go on: save, make a new Trainer and load that"));
      CHECK(contains(test::message<ContractError>(
                         [&] { trainer.evaluate(test::dataset(Three::input, 3, 6)); }),
                     "a rank of this trainer has failed"));
    }
  }
}

TEST_CASE("a rank that does not come in time: who, which reduction, in which action") {
  test::Watchdog const watchdog{"a rank is late"};
  Three trainer{{.batch = 6, .threads_per_device = 1, .timeout = std::chrono::milliseconds{100}}};
  make_identities(trainer);
  Samples<float> samples{Three::input, 3, 6};
  samples.x[8] = -150.0F;  // in rank 1's shard
  try {
    trainer.step(samples.x, samples.y);
    FAIL_CHECK("nothing was thrown");
  } catch (RankError const& error) {
    std::string const text = error.what();
    CHECK(contains(text, "rank 1 did not reach all-reduce"));
    CHECK(contains(text, "losses"));
    CHECK(contains(text, "within 100 ms"));
    CHECK(contains(text, "0F0"));
    CHECK(error.rank() != 1);
    CHECK(contains(text, original_of<TimeoutError>(error)));
  }
  CHECK(contains(test::message<ContractError>([&] { trainer.step(samples.x, samples.y); }),
                 "a rank of this trainer has failed"));
}

/// f() in a child of fork(); whether it says yes. A child that hangs or crashes does not.
template <class F>
bool in_child(F const& f) {
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(30);
    ::_exit(f() ? 7 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

bool is_refused(auto const& f) {
  return contains(test::message<ContractError>(f),
                  ": this Trainer or Predictor was made before fork(), and its threads are in the "
                  "parent process only; make another one in the child, after fork()");
}

TEST_CASE("a child of fork() has a sentence for each use of a trainer, and ends none") {
  test::Watchdog const watchdog{"fork"};
  TrainerOptions const options{.batch = 8, .threads_per_device = 1};
  auto trainer = std::make_unique<Replicas>(options);
  auto predictor = std::make_unique<Predictor<test::TinyNet, Host>>(PredictorOptions{.threads = 1});
  predictor->take(*trainer);
  Samples<float> const data{Replicas::input, 5, 8};
  auto const samples = test::dataset(Replicas::input, 5, 24);
  [[maybe_unused]] double const loss = trainer->step(data.x, data.y).loss;
  bool const child_is_right = in_child([&] {
    bool right = is_refused([&] { trainer->step(data.x, data.y); }) &&
                 is_refused([&] { trainer->train(samples, 0); }) &&
                 is_refused([&] { trainer->evaluate(samples); }) &&
                 is_refused([&] { trainer->save("no file"); }) &&
                 is_refused([&] { static_cast<void>(trainer->parameters()); }) &&
                 is_refused([&] { trainer->await_checkpoint(); }) &&
                 is_refused([&] { trainer->workers().run([](auto& rank) { rank.upload(); }); }) &&
                 is_refused([&] { predictor->predict(data.x); });
    trainer.reset();
    predictor.reset();
#if !defined(__SANITIZE_THREAD__)  // which starts no thread in a child
    Replicas own{options};
    right = right && own.step(data.x, data.y).loss == loss;
#endif
    return right;
  });
  CHECK(child_is_right);
  ::pid_t child = -1;
  bool refused = false;
  try {
    trainer->train(samples, 0, [&](StepReport const& report) {
      if (report.step == 2) {  // the child goes on in this call, with a Loader that nobody fills
        child = ::fork();
        ::alarm(child == 0 ? 30 : 0);
      }
    });
  } catch (ContractError const& error) {
    refused = contains(error.what(), "was made before fork()");
  }
  if (child == 0) {
    ::_exit(refused ? 7 : 1);
  }
  CHECK(!refused);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(trainer->position().step == 4);
}

}  // namespace failure_test
}  // namespace tandem
