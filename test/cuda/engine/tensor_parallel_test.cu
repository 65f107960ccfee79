// SPDX-License-Identifier: Apache-2.0

/// @file
/// Devices that share each layer, ranks of one GPU: the numbers of one device on the host, the same
/// files, and what they write and predict.

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

#include "slices_support.hpp"

namespace tensor_parallel_test {

using namespace tandem;
using namespace tandem::test;
using tandem::test::Part;

using One = Trainer<SharedLayers, SingleDevice<Microbatches<2>>, BasicHost<Portable, Fp64>>;
using Two = OnGpus<TensorParallel<2, Microbatches<2>>, Fp64, VirtualTransport>;

template <class TwoType>
void check_as_one_device() {
  One one{gpt_options()};
  TwoType two{gpt_options()};
  CHECK(first_difference(two.parameters(1), one.parameters()) == "");
  auto const a = shared_steps(one, 4);
  auto const b = shared_steps(two, 4);
  for (std::size_t s = 0; s < a.size(); ++s) {
    INFO("step " << s);
    CHECK(std::fabs(a[s].loss - b[s].loss) <= 1e-11 * a[s].loss);
    CHECK(std::fabs(a[s].gradient_norm - b[s].gradient_norm) <= 1e-10 * a[s].gradient_norm);
    CHECK(a[s].metric == b[s].metric);
    CHECK(a[s].weight == b[s].weight);
  }
  for (int rank = 0; rank < 2; ++rank) {
    for (Part const part : {Part::value, Part::gradient}) {
      Difference const off = difference(two.parameters(rank), one.parameters(), part);
      INFO("rank " << rank << ": " << off.name << " is off by " << off.error);
      CHECK(off.error <= 1e-10);
    }
  }
  CHECK(bits_of(two, b, 1) == bits_of(two, b, 0));
  TwoType again{gpt_options()};
  CHECK(bits_of(again, shared_steps(again, 4)) == bits_of(two, b));
}

TEST_CASE("two ranks that share each layer train as one device on the host, masks and all") {
  Watchdog const watchdog{"slices"};
  check_as_one_device<Two>();
}

// Of 25 rows of five samples the first rank has 13; the last row of the other is none.
TEST_CASE("so they do where each has its rows of what is whole") {
  Watchdog const watchdog{"rows of slices"};
  check_as_one_device<
      OnGpus<TensorParallel<2, Microbatches<2>, SequenceRows>, Fp64, VirtualTransport>>();
}

TEST_CASE("a file of slices is that of one device; what it says they write as the host does") {
  Watchdog const watchdog{"a file of slices"};
  TemporaryFolder const folder;
  One one{gpt_options()};
  shared_steps(one, 3);
  one.save(folder.file("one"));
  Two two{gpt_options()};
  two.load(folder.file("one"));
  two.save(folder.file("two"));
  CHECK(content(folder.file("two")) == content(folder.file("one")));
  std::vector<std::int32_t> const prompt{1, 5, 2};
  for (GenerateOptions const& how : {GenerateOptions{.tokens = 9, .temperature = 0.0F},
                                     GenerateOptions{.tokens = 9, .top_k = 5, .seed = 3}}) {
    CHECK(two.generate(prompt, how) == one.generate(prompt, how));
  }
  CHECK(std::fabs(gpt_step(two, 1).loss - gpt_step(one, 1).loss) <= 1e-10);
}

/// No sequence, no criterion, a sum between convolutions that each rank has whole.
struct Vectors
    : Network<Image<2, 3, 3>, Sequential<Conv2d<4, Kernel<3>, Padding<1>>, Flatten, Linear<12>,
                                         ReLU, Dropout<Percent<20>>, Linear<7>, Tanh, Linear<5>>> {
};

TEST_CASE("ranks that share layers of images predict as the host does, each sample once") {
  Watchdog const watchdog{"predictions of slices"};
  TrainerOptions const options{.batch = 8, .clip_norm = 0.5, .seed = 7, .threads_per_device = 1};
  Trainer<Vectors, SingleDevice<>, BasicHost<Portable, Fp32>> one{options};
  OnGpus<TensorParallel<2>, Fp32, VirtualTransport, Vectors> two{options};
  for (int s = 0; s < 3; ++s) {
    Samples<float> const data{Vectors::input::shape, 5, 8 - s, static_cast<std::uint64_t>(s)};
    CHECK(std::fabs(one.step(data.x, data.y).loss - two.step(data.x, data.y).loss) <= 1e-5);
  }
  auto const data = dataset(Vectors::input::shape, 5, 13, 3);
  std::vector<float> const a = one.predict(data);
  std::vector<float> const b = two.predict(data);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(std::fabs(a[i] - b[i]) <= 1e-5);
  }
}

}  // namespace tensor_parallel_test
