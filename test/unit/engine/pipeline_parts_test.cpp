// SPDX-License-Identifier: Apache-2.0
// Parts of a model that have no parameters, groups of their own, or nothing that is trained: the
// bits of one device, and no gradient goes where none is wanted.

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
void check(TrainerOptions const& options = parity_options()) {
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

TEST_CASE("a stage without parameters passes gradients on, and groups count where theirs are") {
  check<ThreeParts, Pipeline<OneFOneB, 4, Split<2>, Split<2>, Split<3>, Reproducible<>>>(grouped());
  CHECK(gradients_sent(LoggingTransport<3>::log(1), "1SEND_B") == 5 * 4);
}

struct FrozenStem
    : Network<Image<3, 8, 8>, Sequential<Frozen<Conv2d<6, Kernel<3>>>, Frozen<BatchNorm2d<>>, ReLU,
                                         MaxPool2d<Kernel<2>>, Conv2d<4>,  //
                                         GlobalAvgPool, Linear<5>>> {};

TEST_CASE("no gradient is sent to a stage behind which nothing is trained") {
  check<FrozenStem, Pipeline<OneFOneB, 4, Split<2>, Split<3>, Split<2>, Reproducible<>>>();
  CHECK(gradients_sent(LoggingTransport<3>::log(1), "1SEND_B") == 0);
  CHECK(gradients_sent(LoggingTransport<3>::log(2), "2SEND_B") == 5 * 4);
  CHECK(volume(LoggingTransport<3>::log(0), Operation::receive).calls == 0);
}

struct FrozenMiddle
    : Network<Image<3, 8, 8>, Sequential<Conv2d<6, Kernel<3>>, ReLU,                    // 0 1
                                         Frozen<Sequential<Conv2d<4>, BatchNorm2d<>>>,  // 2
                                         Frozen<Conv2d<4>>, ReLU,                       // 3 4
                                         GlobalAvgPool, Linear<5>>> {};                 // 5 6

TEST_CASE("frozen layers on several stages pass gradients on and stay as they are") {
  check<FrozenMiddle, Pipeline<OneFOneB, 4, Split<3>, Split<2>, Split<2>, Reproducible<>>>();
  CHECK(gradients_sent(LoggingTransport<3>::log(1), "1SEND_B") == 5 * 4);
}

// The device with the branches ends with one that nothing is trained in.
struct Branches
    : Network<Image<3, 8, 8>, Sequential<Concat<Conv2d<4>, AvgPool2d<Kernel<1>>>,
                                         Conv2d<4, Kernel<3>>, GlobalAvgPool, Linear<5>>> {};
inline constexpr auto branches = place<Branches>({{"0.0", 1}, {"0.1", 1}});

TEST_CASE("branches on a device of their own, the last of them without parameters") {
  check<Branches, ModelParallel<Placed<branches>, Microbatches<4>, Reproducible<>>>();
}

}  // namespace pipeline_parts_test
}  // namespace tandem::test
