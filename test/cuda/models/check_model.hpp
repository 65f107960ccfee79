// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trains a model on a GPU beside the host: the gradients of the second step are the same.

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include <tandem/cuda.cuh>

#include <compare.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
inline constexpr int model_batch = 4;

template <class Net, class S>
using OnHost = Trainer<Net, S, BasicHost<Portable, Fp64>>;
template <class Net, class S, class Precision = Fp64>
using OnGpu = Trainer<Net, S, BasicCuda<Portable, Precision>, SoftmaxCrossEntropy<>, Accuracy,
                      VirtualTransport>;

template <class Trainer>
StepResult one_step(Trainer& trainer, int step = 0) {
  Samples<typename Trainer::T> const data{Trainer::input, 10, model_batch,
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
  TrainerOptions const options{.batch = model_batch, .seed = 3};
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
  OnGpu<Net, S, Fp32> trainer{{.batch = model_batch, .seed = 3}};
  std::vector<double> numbers;
  for (int step = 0; step < 3; ++step) {
    numbers.push_back(one_step(trainer, step).loss);
  }
  for (auto const& p : trainer.parameters()) {
    numbers.insert(numbers.end(), p.value.begin(), p.value.end());
  }
  return numbers;
}

}  // namespace tandem::test
