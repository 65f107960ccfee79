// SPDX-License-Identifier: Apache-2.0
// Gradients that are rounded to 16 bits on their way between replicas.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace wire_test {

template <class S>
using OnThreads = Trainer<TinyNet, S, Host>;

// The largest error of a gradient in units of what a rounding to E may cost it: half a unit in the
// last place of the tensor's largest number, or of the smallest number that E has.
template <class E>
double error_of(double half_unit, double smallest) {
  Watchdog const watchdog{"rounded gradients"};
  OnThreads<DataParallel<2>> exact{parity_options()};
  OnThreads<DataParallel<2, Wire<E>>> rounded{parity_options()};
  parity_step(exact, 0);
  parity_step(rounded, 0);
  CHECK(first_difference(rounded.parameters(0), rounded.parameters(1)) == "");
  CHECK(rounded.memory().wire == 2 * DeviceOf<decltype(rounded)>::layout.trained);
  CHECK(exact.memory().wire == 0);
  double worst = 0.0;
  auto const wanted = exact.parameters();
  auto const got = rounded.parameters();
  for (std::size_t p = 0; p < wanted.size(); ++p) {
    double largest = 0.0;
    double error = 0.0;
    for (std::size_t i = 0; i < wanted[p].gradient.size(); ++i) {
      double const value = double{wanted[p].gradient[i]};
      largest = std::fmax(largest, std::fabs(value));
      error = std::fmax(error, std::fabs(double{got[p].gradient[i]} - value));
    }
    worst = std::fmax(worst, error / (half_unit * largest + smallest / 2));
  }
  return worst;
}

// Each replica's sum is rounded, and so is the sum of the two: three half units in the last place.
TEST_CASE("bfloat16 has 8 bits, float16 has 11") {
  double const brain = error_of<BFloat16>(std::ldexp(1.0, -9), 0.0);
  CHECK(brain <= 3);
  CHECK(brain > 0.1);
  double const half = error_of<Float16>(std::ldexp(1.0, -12), std::ldexp(1.0, -24));
  CHECK(half <= 3);
  CHECK(half > 0.1);
}

TEST_CASE("what goes over the wire has half the bytes") {
  using S = DataParallel<2, Wire<BFloat16>, BucketBytes<64, 256>>;
  Trainer<TinyNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport> trainer{
      parity_options()};
  LoggingTransport<2>::clear();
  parity_step(trainer, 0);
  std::int64_t bytes = 0;
  for (Record const& record : LoggingTransport<2>::log(0)) {
    bytes += record.label.index >= 0 ? record.bytes : 0;  // buckets, not losses
  }
  CHECK(bytes == 2 * DeviceOf<decltype(trainer)>::layout.trained);
}

// Both replicas round their gradients, and the sum of the two is rounded, as numbers of double.
TEST_CASE("gradients in double are rounded, too") {
  Watchdog const watchdog{"rounded gradients in double"};
  Trainer<PlainNet, DataParallel<2>, Double> exact{parity_options()};
  Trainer<PlainNet, DataParallel<2, Wire<BFloat16>>, Double> rounded{parity_options()};
  parity_step(exact, 0);
  parity_step(rounded, 0);
  Difference const off = difference(rounded.parameters(), exact.parameters(), Part::gradient);
  CHECK(off.error <= 3 * std::ldexp(1.0, -9));
  CHECK(off.error > 0.0);
  for (auto const& parameter : rounded.parameters()) {
    for (double const g : parameter.gradient) {
      CHECK(g == static_cast<double>(BFloat16{g}));
    }
  }
}

TEST_CASE("one replica sends nothing, so nothing is rounded") {
  OnThreads<DataParallel<1, Wire<BFloat16>>> one{parity_options()};
  OnThreads<SingleDevice<>> plain{parity_options()};
  parity_step(one, 0);
  parity_step(plain, 0);
  CHECK(first_difference(one.parameters(), plain.parameters()) == "");
}

}  // namespace wire_test
}  // namespace tandem::test
