// SPDX-License-Identifier: Apache-2.0
// What goes over the wire between replicas: calls, their order and their bytes, against the
// formula; and gradients that are rounded to 16 bits there.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace buckets_test {

template <class Net, class S>
using Recorded = Trainer<Net, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport>;

template <class T>
using Transport = LoggingTransport<T::ProgramType::ranks>;

template <class T>
std::vector<Record> step_log(T& trainer, int batch) {
  Samples<float> const data{T::input, T::output[0], batch};
  Transport<T>::clear();
  trainer.step(data.x, data.y);
  return Transport<T>::log(0);
}

/// Elements of each bucket, from the graph alone: parameters in the order of backward, each rounded
/// up to 16; a bucket closes after the node at which it has `first` (later `rest`) bytes.
template <class G>
std::vector<std::int64_t> bucket_elements(G const& graph, std::int64_t first, std::int64_t rest) {
  std::vector<std::int64_t> buckets;
  std::int64_t open = 0;
  for (int n = graph.nodes - 1; n >= 0; --n) {
    for (int p = 0; p < graph.parameters; ++p) {
      if (graph.parameter[p].node == n && !graph.parameter[p].frozen) {
        open += (graph.parameter[p].parameter.shape.elements() + 15) / 16 * 16;
      }
    }
    if (open * 4 >= (buckets.empty() ? first : rest)) {
      buckets.push_back(open);
      open = 0;
    }
  }
  if (open > 0) {
    buckets.push_back(open);
  }
  return buckets;
}

/// A step is one reduction of losses and metrics, then the buckets.
template <class T>
void check_log(T& trainer, std::int64_t first, std::int64_t rest) {
  using Device = DeviceOf<T>;
  std::vector<Record> const log = step_log(trainer, 13);
  std::vector<std::int64_t> const buckets = bucket_elements(Device::graph, first, rest);
  REQUIRE(log.size() == buckets.size() + 1);
  CHECK(to_string(log[0].label) == "losses");
  CHECK(log[0].bytes == 2 * 8 * exact_lanes);  // of any number of microbatches
  std::int64_t bytes = log[0].bytes;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    Record const& record = log[b + 1];
    CHECK(record.operation == Operation::all_reduce);
    CHECK(record.ranks == T::ProgramType::ranks);
    CHECK(to_string(record.label) == "bucket " + std::to_string(b));
    CHECK(record.elements == buckets[b]);
    CHECK(record.bytes == 4 * buckets[b]);
    bytes += 4 * Device::layout.bucket_begin[b + 1] - 4 * Device::layout.bucket_begin[b];
  }
  std::int64_t all = 0;
  for (Record const& record : log) {
    all += record.bytes;
  }
  CHECK(all == bytes);
}

TEST_CASE("bytes and order of the calls of a step are the layout's") {
  Watchdog const watchdog{"bytes of a step"};
  Recorded<TinyNet, DataParallel<2, BucketBytes<64, 600>>> several{
      {.batch = 13, .threads_per_device = 1}};
  check_log(several, 64, 600);
  CHECK(several.graph.nodes > 0);
  CHECK(step_log(several, 13).size() > 4);  // several buckets indeed
  Recorded<TinyNet, DataParallel<2, Microbatches<2>>> one{{.batch = 13, .threads_per_device = 1}};
  check_log(one, std::int64_t{1} << 20, std::int64_t{25} << 20);
  CHECK(step_log(one, 13).size() == 2);

  Transport<decltype(one)>::clear();
  one.evaluate(dataset(one.input, 5, 13));
  CHECK(Transport<decltype(one)>::log(1).size() == 1);  // the losses
}

TEST_CASE("buckets do not change a bit") {
  Watchdog const watchdog{"bits of buckets"};
  TrainerOptions const options{
      .batch = 13, .optimizer = Sgd{.momentum = 0.9F}, .clip_norm = 1.0, .threads_per_device = 1};
  Recorded<TinyNet, DataParallel<2, BucketBytes<64, 600>>> several{options};
  Recorded<TinyNet, DataParallel<2>> one{options};
  for (int s = 0; s < 3; ++s) {
    step_log(several, 13 - s);
    step_log(one, 13 - s);
  }
  CHECK(first_difference(several.parameters(), one.parameters()) == "");
}

TEST_CASE("the order of the buckets is that of backward") {
  using P = Program<TinyNet, DataParallel<2, BucketBytes<64, 600>>, 4>::Device<0>;
  int bucket = 0;
  for (int n = P::graph.nodes - 1; n > 0; --n) {
    if (P::layout.closes[n] >= 0) {
      CHECK(P::layout.closes[n] == bucket++);
    }
    Node const& node = P::graph.node[n];
    for (int p = node.first_parameter; p < node.first_parameter + node.parameters; ++p) {
      // not yet reduced when its gradient is made
      CHECK(P::layout.offset[p] >= P::layout.bucket_begin[bucket - (P::layout.closes[n] >= 0)]);
    }
  }
  CHECK(bucket == P::layout.buckets);
}

/// Notes how many calls its rank has made so far. The first number of a microbatch tells the rank.
struct Probe {
  static constexpr std::string_view name = "Probe";
  static constexpr Shape output(Shape in) { return in; }
  static inline std::vector<std::size_t> calls{};
  static inline std::size_t (*count)() = nullptr;

  static void note(auto const& call) {
    if (count != nullptr && call.x[0] > 0) {
      calls.push_back(count());
    }
  }
  static void forward(auto const& call) {
    note(call);
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) {
    note(call);
    std::ranges::copy(call.dy, call.dx.begin());
  }
};
struct ProbedNet : Network<Vector<2>, Sequential<Linear<2>, Probe, Linear<3>>> {};

TEST_CASE("accumulated gradients are reduced with the last microbatch, not before") {
  Watchdog const watchdog{"accumulation"};
  using T = Recorded<ProbedNet, DataParallel<2, Microbatches<4>, BucketBytes<1, 1>>>;
  T trainer{{.batch = 8, .threads_per_device = 1}};
  for (int rank = 0; rank < 2; ++rank) {  // rank 0 has positive numbers
    for (auto const& p : trainer.workers().rank(rank).parameters()) {
      std::ranges::fill(detail::writable(p.value),
                        p.name == "0.bias" ? 1.0F - 2.0F * static_cast<float>(rank) : 0.0F);
    }
  }
  trainer.workers().run([](auto& rank) { rank.upload(); });
  Probe::calls.clear();
  Probe::count = [] { return Transport<T>::log(0).size(); };
  std::vector<Record> const log = step_log(trainer, 8);
  Probe::count = nullptr;
  CHECK(Probe::calls == std::vector<std::size_t>{0, 0, 0, 0, 0, 0, 0, 2});  // losses, bucket 0
  CHECK(log.size() == 3);
}

TEST_CASE("one device makes no call at all") {
  Recorded<PlainNet, SingleDevice<Microbatches<4>, Reproducible<>>> trainer{
      {.batch = 8, .threads_per_device = 1}};
  CHECK(step_log(trainer, 8).empty());
  trainer.evaluate(dataset(trainer.input, 3, 9));
  trainer.predict(dataset(trainer.input, 3, 9));
  CHECK(Transport<decltype(trainer)>::log(0).empty());
}

// Gradients that are rounded to 16 bits on their way between replicas.

/// The largest error of a gradient in units of what a rounding to E may cost it: half a unit in the
/// last place of the tensor's largest number, or of the smallest number that E has. What goes over
/// the wire has half the bytes.
template <class E>
double error_of(double half_unit, double smallest) {
  Watchdog const watchdog{"rounded gradients"};
  Recorded<TinyNet, DataParallel<2>> exact{parity_options()};
  Recorded<TinyNet, DataParallel<2, Wire<E>, BucketBytes<64, 256>>> rounded{parity_options()};
  parity_step(exact, 0);
  LoggingTransport<2>::clear();
  parity_step(rounded, 0);
  std::int64_t bytes = 0;
  for (Record const& record : LoggingTransport<2>::log(0)) {
    bytes += record.label.index >= 0 ? record.bytes : 0;  // buckets, not losses
  }
  CHECK(bytes == rounded.memory().wire);
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
  Recorded<TinyNet, DataParallel<1, Wire<BFloat16>>> one{parity_options()};
  Recorded<TinyNet, SingleDevice<>> plain{parity_options()};
  parity_step(one, 0);
  parity_step(plain, 0);
  CHECK(first_difference(one.parameters(), plain.parameters()) == "");
}

}  // namespace buckets_test
}  // namespace tandem::test
