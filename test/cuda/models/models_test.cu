// SPDX-License-Identifier: Apache-2.0

/// @file
/// The library's models: on a GPU what they are on the host, on one rank and on several.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include <tandem/cuda.cuh>

#include <compare.hpp>
#include <tiny_network.hpp>
#include <unit/comm/watchdog.hpp>

namespace tandem::test {
namespace {

constexpr int batch = 4;

template <class Net, class S>
using OnHost = Trainer<Net, S, BasicHost<Portable, Fp64>>;
template <class Net, class S, class Precision = Fp64>
using OnGpu = Trainer<Net, S, BasicCuda<Portable, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                      VirtualTransport>;

template <class Trainer>
StepResult one_step(Trainer& trainer, int step = 0) {
  Samples<typename Trainer::T> const data{Trainer::input, 10, batch,
                                          static_cast<std::uint64_t>(step)};
  return trainer.step(data.x, data.y);
}

// The largest difference of two ranks' gradients over the largest gradient; one of a bias that a
// batch norm takes away is nothing but rounding, so that each by itself would say nothing.
template <class T>
double gradients_differ(std::vector<NamedParameter<T>> const& a,
                        std::vector<NamedParameter<T>> const& b) {
  double largest = 0.0;
  double error = 0.0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    for (std::size_t i = 0; i < a[p].gradient.size(); ++i) {
      double const off = std::fabs(a[p].gradient[i] - b[p].gradient[i]);
      error = off <= error ? error : off;  // a NaN stays
      largest = std::fmax(largest, std::fabs(b[p].gradient[i]));
    }
  }
  return error / largest;
}

// Two steps in double: the gradients of the second have gone through everything. A network of 200
// layers with batch norms over 4 samples may amplify a rounding (1e-16) by a factor of a million.
template <class Net, class S, class OneDevice>
void check_model() {
  Watchdog const watchdog{"a model", std::chrono::seconds{300}};
  TrainerOptions const options{.batch = batch, .seed = 3};
  OnHost<Net, OneDevice> host{options};
  OnGpu<Net, S> gpu{options};
  for (int step = 0; step < 2; ++step) {
    double const loss = one_step(host, step).loss;
    CHECK(std::fabs(one_step(gpu, step).loss - loss) <= 1e-10 * loss);
  }
  for (int replica = 0; replica < S::batching.replicas; ++replica) {
    CHECK(gradients_differ(gpu.parameters(replica), host.parameters()) <= 1e-10);
  }
}

// Bits of losses and of one parameter of each rank after three steps in fp32.
template <class Net, class S>
std::vector<double> bits_of() {
  OnGpu<Net, S, Fp32> trainer{{.batch = batch, .seed = 3}};
  std::vector<double> numbers;
  for (int step = 0; step < 3; ++step) {
    numbers.push_back(one_step(trainer, step).loss);
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

struct Small : models::SmallCnn<10> {};
struct Residual20 : models::ResNet20<10> {};
struct Google : models::GoogLeNet<10> {};

TEST_CASE("SmallCnn, ResNet-20") {
  check_model<Small, DataParallel<4>, SingleDevice<Microbatches<4>>>();
  check_model<Residual20, SingleDevice<>, SingleDevice<>>();
  check_model<Residual20, DataParallel<2>, SingleDevice<Microbatches<2>>>();
}

TEST_CASE("GoogLeNet") { check_model<Google, SingleDevice<>, SingleDevice<>>(); }

#if !defined(TANDEM_CUDA_EMULATED)  // each would take minutes there

struct Residual18 : models::ResNet18<10> {};

TEST_CASE("ResNet-18; GoogLeNet on 2 and 4 ranks") {
  check_model<Residual18, SingleDevice<>, SingleDevice<>>();
  check_model<Google, DataParallel<2>, SingleDevice<Microbatches<2>>>();
  check_model<Google, DataParallel<4>, SingleDevice<Microbatches<4>>>();
}

TEST_CASE("GoogLeNet in two stages, on 2 and 4 ranks") {
  using One = SingleDevice<Microbatches<4>>;
  check_model<Google, Pipeline<GPipe, 4, Split<5>, Split<9>, Checkpoint<Boundaries>>, One>();
  check_model<Google, Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<5>, Split<9>>>, One>();
}

TEST_CASE("GoogLeNet, reproducible: the same bits on 1, 2 and 4 ranks") {
  auto const one = bits_of<Google, SingleDevice<Microbatches<4>, Reproducible<>>>();
  CHECK(one == bits_of<Google, DataParallel<2, Microbatches<2>, Reproducible<>>>());
  CHECK(one == bits_of<Google, DataParallel<4, Reproducible<>>>());
}

#else

TEST_CASE("ResNet-20, reproducible: the same bits on 1 and 4 ranks") {
  CHECK(bits_of<Residual20, SingleDevice<Microbatches<4>, Reproducible<>>>() ==
        bits_of<Residual20, DataParallel<4, Reproducible<>>>());
}

#endif

}  // namespace
}  // namespace tandem::test
