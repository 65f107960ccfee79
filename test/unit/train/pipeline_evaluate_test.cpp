// SPDX-License-Identifier: Apache-2.0
// Evaluation and prediction on a model that is cut: the bits of one device with the same
// microbatches, outputs in the order of the samples, also with fewer samples than microbatches.

#include <doctest/doctest.h>

#include <vector>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace pipeline_evaluate_test {

constexpr int samples = 29;  // batches of 13, 13 and 3

template <class S>
struct Answers {
  Answers() {
    Watchdog const watchdog{"evaluation of a cut model"};
    Trainer<DeepNet, S, Host> trainer{parity_options()};
    auto const data = dataset(trainer.input, 5, samples);
    parity_step(trainer, 0);  // statistics of batch norm
    before = trainer.predict(data);
    Evaluation const result = trainer.evaluate(data);
    numbers = {result.loss, result.accuracy, static_cast<double>(result.samples)};
    parity_step(trainer, 1);  // training goes on as if nothing had been asked
    after = trainer.predict(data);
  }
  std::vector<float> before{};
  std::vector<double> numbers{};
  std::vector<float> after{};
};

Answers<SingleDevice<Microbatches<4>, Reproducible<>>> const& one() {
  static Answers<SingleDevice<Microbatches<4>, Reproducible<>>> const answers;
  return answers;
}

template <class S>
void check() {
  Answers<S> const many;
  CHECK(many.before.size() == samples * 5);
  CHECK(many.before == one().before);
  CHECK(many.numbers == one().numbers);
  CHECK(many.after == one().after);
  CHECK(many.after != many.before);
}

TEST_CASE("a chain of four devices answers as one device") {
  check<InFour<OneFOneB, 4, Reproducible<>>>();
}

TEST_CASE("two devices with two stages each answer as one device") {
  check<InFour<Interleaved<2>, 4, Reproducible<>, Checkpoint<Boundaries>>>();
}

TEST_CASE("two copies in opposite directions answer as one device") {
  check<InTwo<Chimera, 4, Reproducible<>>>();
}

TEST_CASE("replicas of a chain answer as one device") {
  check<Hybrid<DataParallel<2, Reproducible<>>, InTwo<ZeroBubbleH1, 2>>>();
}

}  // namespace pipeline_evaluate_test
}  // namespace tandem::test
