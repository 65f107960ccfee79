// SPDX-License-Identifier: Apache-2.0
// A checkpoint that version 0.1 (commit 2f88878) wrote after two steps loads, and training goes on
// with the bits with which 0.1 went on, under other strategies, too.
//
// Only additions, products, quotients and square roots are between these numbers, which IEEE 754
// rounds in one way, and sums of a fixed order; so they depend on no compiler, as long as it keeps
// a product and a sum apart.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace old_checkpoint_test {

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
constexpr bool same_bits = false;  // a compiler may round a product and a sum once
#else
constexpr bool same_bits = true;
#endif
constexpr double bound =
    1e-5;  // relative, where the bits are others; clang 14 -O1 -march=native is off by 4e-7

struct Net
    : Network<Image<2, 5, 5>, Sequential<Conv2d<4, Kernel<3>, Padding<1>, NoBias>, BatchNorm2d<>,
                                         ReLU, MaxPool2d<Kernel<2>, Stride<1>>,
                                         Dropout<Percent<25>>, Conv2d<3, Kernel<3>, NoBias>,
                                         BatchNorm2d<>, ReLU, GlobalAvgPool, Linear<2>>> {};

template <class S>
using Of = Trainer<Net, S, BasicHost<Portable>, MeanSquaredError, NoMetric>;

constexpr double losses[] = {0x1.a05ebb33dd35fp-2, 0x1.0891d1bb1046dp-2};  // of steps 2 and 3

/// Step @p number on a batch of eight of its own.
template <class S>
double step(Of<S>& trainer, int number) {
  auto const numbers = [&](std::uint64_t count, std::uint64_t kind) {
    std::vector<float> list;
    for (std::uint64_t i = 0; i < count; ++i) {
      Random4 const r = philox(static_cast<std::uint64_t>(number), RandomUse::user, i, kind);
      list.push_back(2.0F * uniform(r.word[0]) - 1.0F);
    }
    return list;
  };
  return trainer.step(numbers(8 * 50, 0), numbers(8 * 2, 1)).loss;
}

/// @p name ".safetensors" in the folder of test data.
std::string data(std::string const& name) {
  return std::string{TANDEM_TEST_DATA} + "/checkpoints/" + name + ".safetensors";
}

void check(std::string const& name, std::span<float const> values, Safetensors const& file) {
  INFO(name);
  TensorView const& tensor = file.at(name);
  std::vector<float> wanted(tensor.data.size() / sizeof(float));
  std::memcpy(wanted.data(), tensor.data.data(), tensor.data.size());
  if (same_bits) {
    CHECK(test::same_bits(values, std::span<float const>{wanted}));
  } else {
    CHECK(test::relative_error(values, std::span<float const>{wanted}) <= bound);
  }
}

template <class S>
void check_goes_on() {
  test::Watchdog const watchdog{"an old checkpoint"};
  Of<S> trainer{{.batch = 8,
                 .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
                 .threads_per_device = 1}};
  trainer.load(data("two_steps_of_0.1"));
  CHECK(trainer.position().step == 2);
  CHECK(trainer.options().seed == 11);  // of the dropout, too
  for (int number = 2; number < 4; ++number) {
    double const loss = step(trainer, number);
    double const wanted = losses[number - 2];
    CHECK((same_bits ? loss == wanted : std::fabs(loss - wanted) <= bound * wanted));
  }
  Safetensors const file = Safetensors::read(data("four_steps_of_0.1"));
  for (int replica = 0; replica < Of<S>::ProgramType::batching.replicas; ++replica) {
    for (NamedParameter<float> const& p : trainer.parameters(replica)) {
      check(p.name, p.value, file);
      for (std::span<float const> const state : p.states) {
        check("optimizer.momentum_buffer." + p.name, state, file);
      }
    }
  }
}

TEST_CASE("a checkpoint of 0.1 loads and goes on with the same bits on one device") {
  check_goes_on<SingleDevice<Microbatches<2>, Reproducible<>>>();  // which wrote it
}

TEST_CASE("so it does on two replicas of a pipeline") {
  check_goes_on<
      Hybrid<DataParallel<2, Reproducible<>>, Pipeline<OneFOneB, 1, Split<5>, Split<5>>>>();
}

}  // namespace old_checkpoint_test
}  // namespace tandem
