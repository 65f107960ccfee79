// SPDX-License-Identifier: Apache-2.0
// Layers computed in as many slices on any number of devices: the same bits.

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

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

using Float = BasicHost<Portable>;
using One = SingleDevice<Slices<4>, Microbatches<4>, Reproducible<>>;

template <class S>
void check_bits() {
  static test::TrainedGpt<One, Float, Mixed> const one;
  test::TrainedGpt<S, Float, Mixed> const many;
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(one.results[s].loss == many.results[s].loss);
    CHECK(one.results[s].gradient_norm == many.results[s].gradient_norm);
    CHECK(one.results[s].gradient_norm > 0.5);  // it is clipped
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
  check_bits<TensorParallel<2, Slices<4>, Microbatches<4>, Reproducible<>>>();
}

TEST_CASE("so do four with one each") {
  check_bits<TensorParallel<4, Microbatches<4>, Reproducible<>>>();
}

TEST_CASE("so do replicas of a pipeline whose parts two devices share, and states the replicas") {
  check_bits<Hybrid<DataParallel<2, ShardedState>,
                    Pipeline<OneFOneB, 2, Split<2>, Split<2>, Reproducible<>>,
                    TensorParallel<2, Slices<4>>>>();
}

}  // namespace slices_test
}  // namespace tandem
