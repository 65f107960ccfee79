// SPDX-License-Identifier: Apache-2.0
// Strategies of one device, whatever their names: no communication, no copy, no byte and no action
// more than SingleDevice, and its bits.

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>

namespace tandem::test {
namespace one_stage_test {

template <class S>
struct Observed {
  Observed() {
    Watchdog const watchdog{"one device"};
    TrainerOptions options = parity_options();
    LoggingTransport<1>::clear();
    Trainer<TinyNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport> trainer{options};
    for (int s = 0; s < 5; ++s) {
      StepResult const r = parity_step(trainer, s);
      numbers.insert(numbers.end(), {r.loss, r.metric, r.gradient_norm});
    }
    auto const data = dataset(trainer.input, 5, 20);
    numbers.push_back(trainer.evaluate(data).loss);
    outputs = trainer.predict(data);
    MemoryReport const m = trainer.memory();
    memory = {m.parameters, m.gradients, m.optimizer_state, m.kept,
              m.recomputed, m.transient, m.scratch,         m.weights,
              m.wire,       m.feed,      m.tables,          m.logical};
    calls = LoggingTransport<1>::log(0).size();
    training = rank_of(trainer).plan().training;
    forward = rank_of(trainer).plan().forward;
  }
  std::vector<double> numbers{};
  std::vector<float> outputs{};
  std::vector<std::int64_t> memory{};
  std::vector<Action> training{};
  std::vector<Action> forward{};
  std::size_t calls = 0;
};

template <class S>
void check() {
  static Observed<SingleDevice<Microbatches<4>>> const one;
  Observed<S> const other;
  CHECK(other.calls == 0);
  CHECK(other.numbers == one.numbers);
  CHECK(other.outputs == one.outputs);
  CHECK(other.memory == one.memory);
  CHECK(other.training == one.training);
  CHECK(other.forward == one.forward);
  CHECK(one.training.size() == 4 + 4 + 2);  // passes, update, end
}

TEST_CASE("a pipeline of one stage is one device") { check<Pipeline<GPipe, 4, Split<9>>>(); }

TEST_CASE("one replica of a pipeline of one stage is one device") {
  check<Hybrid<DataParallel<1>, Pipeline<OneFOneB, 4, Split<9>>>>();
}

TEST_CASE("one replica of a model in one part is one device") {
  check<Hybrid<DataParallel<1>, ModelParallel<Split<9>, Microbatches<4>>>>();
}

}  // namespace one_stage_test
}  // namespace tandem::test
