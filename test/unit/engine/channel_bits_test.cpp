// SPDX-License-Identifier: Apache-2.0
// Channels computed in as many slices on any number of devices: the same bits.

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <parity.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace channel_bits_test {

template <int Out, class... Options>
using Norm = Sequential<Conv2d<Out, Options..., NoBias>, BatchNorm2d<>, ReLU>;

/// A small GoogLeNet: a pair of convolutions, an Inception block with two pairs and a branch that
/// is whole, a mask; and a pair across the end of the images.
struct Small
    : Network<Image<3, 8, 8>,
              Sequential<
                  Sequential<Norm<8, Kernel<3>, Padding<1>>,
                             MaxPool2d<Kernel<3>, Stride<2>, Padding<1>>, Norm<6>>,
                  Concat<Norm<4>, Sequential<Norm<4>, Norm<5, Kernel<3>, Padding<1>>>,
                         Sequential<Norm<4>, Dropout<Percent<20>>, Norm<2, Kernel<5>, Padding<2>>>,
                         Sequential<MaxPool2d<Kernel<3>, Stride<1>, Padding<1>>, Norm<2>>>,
                  Sequential<Conv2d<8>, ReLU, GlobalAvgPool, Dropout<Percent<40>>, Linear<5>>>> {};

using Float = BasicHost<Portable>;
using One = SingleDevice<Slices<4>, Microbatches<4>, Reproducible<>>;

template <class S>
struct Trained {
  Trainer<Small, S, Float> trainer{test::parity_options()};
  std::vector<StepResult> results{};
  Trained() {
    test::Watchdog const watchdog{"three steps of slices of channels"};
    for (int s = 0; s < 3; ++s) {
      results.push_back(test::parity_step(trainer, s));
    }
  }
};

template <class S>
void check_bits() {
  static Trained<One> const one;
  Trained<S> const many;
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(one.results[s].loss == many.results[s].loss);
    CHECK(one.results[s].gradient_norm == many.results[s].gradient_norm);
    CHECK(one.results[s].metric == many.results[s].metric);
  }
  test::TemporaryFolder const folder;
  one.trainer.save(folder.file("one"));
  many.trainer.save(folder.file("many"));
  CHECK(test::content(folder.file("many")) == test::content(folder.file("one")));
  for (int line = 0; line < S::ranks / S::devices; ++line) {
    for (test::Part const part : {test::Part::value, test::Part::gradient}) {
      test::Difference const off =
          test::difference(many.trainer.parameters(line), one.trainer.parameters(), part);
      INFO("line " << line << ": " << off.name << " is off by " << off.error);
      CHECK(off.error == 0.0);
    }
  }
}

TEST_CASE("two devices with two slices of the channels each have the bits of one with four") {
  check_bits<ChannelParallel<2, Slices<4>, Microbatches<4>, Reproducible<>>>();
}

TEST_CASE("so do replicas of a pipeline whose parts four devices share, and states the replicas") {
  check_bits<
      Hybrid<DataParallel<2, ShardedState>,
             Pipeline<OneFOneB, 2, Split<1>, Split<2>, Reproducible<>>, ChannelParallel<4>>>();
}

}  // namespace channel_bits_test
}  // namespace tandem
