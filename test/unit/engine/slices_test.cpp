// SPDX-License-Identifier: Apache-2.0
// Layers, and channels of images, computed in as many slices on any number of devices: the same
// bits.

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <trained_alike.hpp>

namespace tandem {
namespace slices_test {

/// Four heads of keys, a gate, and masks within rows: each divides by four.
struct Mixed
    : Network<Tokens<test::gpt_time, test::gpt_words>,
              Sequential<
                  Embedding<test::gpt_words, 8>,
                  Residual<Sequential<LayerNorm<>, Linear<32>, RotaryPositions<8, KeyHeads<4>>,
                                      Attention<8, Causal, KeyHeads<4>, Percent<20>>, Linear<8>>>,
                  Residual<Sequential<RmsNorm<>, Linear<16>, SwiGlu, Dropout<Percent<25>>,
                                      Linear<8>, Dropout<Percent<10>>>>,
                  Vocabulary<test::gpt_words>>> {};

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
using R = Reproducible<>;

template <class Net, class S>
void check_bits() {
  using One = SingleDevice<Slices<4>, Microbatches<4>, R>;
  constexpr bool words = test::has_words<Trainer<Net, One, Float>>;
  auto const& one = test::trained_once<Net, One, Float>();
  test::TrainedShared<Net, S, Float> const many;
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(one.results[s].loss == many.results[s].loss);
    CHECK(one.results[s].gradient_norm == many.results[s].gradient_norm);
    CHECK((!words || one.results[s].gradient_norm > 0.5));  // it is clipped
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

TEST_CASE("two devices with two slices each have the bits of one with four") {
  check_bits<Mixed, TensorParallel<2, Slices<4>, Microbatches<4>, R>>();
  check_bits<Small, ChannelParallel<2, Slices<4>, Microbatches<4>, R>>();
}

TEST_CASE("so do four with one each") {
  check_bits<Mixed, TensorParallel<4, Microbatches<4>, R>>();
}

template <int First, int Second, class Parallel>
using Replicas = Hybrid<DataParallel<2, ShardedState>,
                        Pipeline<OneFOneB, 2, Split<First>, Split<Second>, R>, Parallel>;

TEST_CASE("so do replicas of a pipeline whose parts devices share, and states the replicas") {
  check_bits<Mixed, Replicas<2, 2, TensorParallel<2, Slices<4>>>>();
  check_bits<Small, Replicas<1, 2, ChannelParallel<4>>>();
}

}  // namespace slices_test
}  // namespace tandem
