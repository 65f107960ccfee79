// SPDX-License-Identifier: Apache-2.0
// Parts of a model that have no parameters, or groups of their own: the bits of one device.

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace pipeline_parts_test {

template <class Net, class S>
using Logged = Trainer<Net, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport>;

TrainerOptions grouped() {
  TrainerOptions options = parity_options();
  options.groups = {{.pattern = "*.bias", .weight_decay = 0.0F},
                    {.pattern = "4.*", .learning_rate_scale = 0.5F}};
  return options;
}

/// Five steps with the bits of one device; Net is cut by S.
template <class Net, class S>
void check(TrainerOptions const& options) {
  Watchdog const watchdog{"parts of a model"};
  Logged<Net, SingleDevice<Microbatches<4>, Reproducible<>>> one{options};
  Logged<Net, S> many{options};
  LoggingTransport<S::ranks>::clear();
  for (int s = 0; s < 5; ++s) {
    StepResult const a = parity_step(one, s);
    StepResult const b = parity_step(many, s);
    CHECK(a.loss == b.loss);
    CHECK(a.gradient_norm == b.gradient_norm);
  }
  CHECK(first_difference(many.parameters(), one.parameters()) == "");
}

int gradients_sent(LoggingTransport<3>::Log const& log, char const* label) {
  return volume(log, Operation::send, label).calls;
}

struct ThreeParts
    : Network<Image<3, 8, 8>, Sequential<Conv2d<6, Kernel<3>>, BatchNorm2d<>, ReLU,  // 0 1 2
                                         MaxPool2d<Kernel<2>>, Conv2d<4>,            // 3 4
                                         GlobalAvgPool, Linear<5>>> {};              // 5 6

TEST_CASE("groups of parameters count where the parameters are") {
  check<ThreeParts, Pipeline<OneFOneB, 4, Split<2>, Split<3>, Split<2>, Reproducible<>>>(grouped());
}

TEST_CASE("a stage without parameters passes gradients on") {
  check<ThreeParts, Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<3>, Reproducible<>>>(
      parity_options());
  CHECK(gradients_sent(LoggingTransport<3>::log(1), "1SEND_B") == 5 * 4);
}

}  // namespace pipeline_parts_test
}  // namespace tandem::test
