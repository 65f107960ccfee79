// SPDX-License-Identifier: Apache-2.0
// Values that Let names and several parts further on read: the same losses and parameters wherever
// the network is cut, bit for bit.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <logging_transport.hpp>
#include <parity.hpp>
#include <support/watchdog.hpp>

namespace tandem {
namespace named_values_test {

struct First;
struct Second;
struct Unread;

/// Nine top-level parts. First is read by parts 2, 4 and 6, and Second by parts 3, 4 and 7.
struct Net : Network<Vector<6>,
                     Sequential<Linear<8>, Tanh, Let<First>, Linear<8>, Let<Second>, Let<Unread>,
                                Tanh, Concat<Sequential<>, Use<First>, Use<Second>>, Linear<8>,
                                Residual<Sequential<Tanh, Linear<8>>, Use<First>>,
                                Multiply<Use<Second>, Sequential<>>, Linear<4>>> {};
static_assert(graph<Net>.tops == 9 && graph<Net>.fault == Fault::none);

/// A value that is named where the network's own input still is, and one of another kind.
struct Views : Network<Image<2, 4, 4>,
                       Sequential<Flatten, Let<First>, Linear<16>, Tanh, Linear<32>,
                                  Residual<Sequential<>, Use<First>>, Linear<5>, Tanh, Linear<4>>> {
};

inline constexpr auto apart = place<Net>({{"0", 0}, {"1", 1}, {"3", 2}, {"6", 1}, {"7", 0}});

TrainerOptions options() {
  return {.batch = 12,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .clip_norm = 0.7,
          .seed = 3,
          .threads_per_device = 1};
}

template <class N, class S, class Backend = Host>
std::vector<double> trained() {
  test::Watchdog const watchdog{"values read several stages later"};
  Trainer<N, S, Backend> trainer{options()};
  constexpr Shape shape = N::input::shape;
  std::vector<double> all;
  for (int const samples : {12, 9, 5}) {
    test::Samples<typename Backend::Scalar> const data{shape, 4, samples};
    all.push_back(trainer.step(data.x, data.y).loss);
  }
  for (auto const& p : trainer.parameters()) {
    all.insert(all.end(), p.value.begin(), p.value.end());
  }
  all.push_back(trainer.evaluate(test::dataset(shape, 4, 15)).loss);
  return all;
}

template <class N, class S>
void check_bits(std::vector<double> const& one) {
  std::vector<double> const many = trained<N, S>();
  REQUIRE(one.size() == many.size());
  CHECK(std::equal(one.begin(), one.end(), many.begin()));
}

TEST_CASE("a value read several stages later gives the bits of one device") {
  std::vector<double> const one = trained<Net, SingleDevice<Microbatches<4>, Reproducible<>>>();
  check_bits<
      Net, ModelParallel<Split<2>, Split<2>, Split<2>, Split<3>, Microbatches<4>, Reproducible<>>>(
      one);
  check_bits<Net, Pipeline<OneFOneB, 4, Split<2>, Split<1>, Split<2>, Split<4>, Reproducible<>>>(
      one);
  check_bits<Net, Pipeline<ZeroBubbleH1, 4, Split<2>, Split<2>, Split<5>, Reproducible<>>>(one);
  check_bits<Net,
             Pipeline<Interleaved<2>, 4, Split<2>, Split<2>, Split<2>, Split<3>, Reproducible<>>>(
      one);
  check_bits<Net, Pipeline<ZeroBubbleV, 4, Split<2>, Split<1>, Split<2>, Split<4>, Reproducible<>>>(
      one);
}

TEST_CASE("what is computed again, two models and replicas read named values") {
  std::vector<double> const one = trained<Net, SingleDevice<Microbatches<4>, Reproducible<>>>();
  using Again = Checkpoint<Boundaries>;
  check_bits<Net,
             Pipeline<OneFOneB, 4, Split<2>, Split<1>, Split<2>, Split<4>, Reproducible<>, Again>>(
      one);
  check_bits<
      Net, Pipeline<GPipe, 4, Split<3>, Split<3>, Split<3>, Reproducible<>, Checkpoint<Every<2>>>>(
      one);
  check_bits<Net, Pipeline<Chimera, 4, Split<2>, Split<2>, Split<2>, Split<3>, Reproducible<>>>(
      one);
  check_bits<Net, DataParallel<2, Microbatches<2>, Reproducible<>>>(one);
  check_bits<Net, Hybrid<DataParallel<2, Reproducible<>>,
                         Pipeline<OneFOneB, 2, Split<2>, Split<2>, Split<5>>>>(one);
}

using Double = BasicHost<Portable, Fp64>;

template <class N, class S>
void check_near(std::vector<double> const& one) {
  std::vector<double> const many = trained<N, S, Double>();
  REQUIRE(one.size() == many.size());
  double worst = 0.0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    worst = std::max(worst, std::fabs(one[i] - many[i]));
  }
  CHECK(worst <= 1e-12);
}

TEST_CASE("named values give one device's numbers without Reproducible, as views and placed") {
  std::vector<double> const one = trained<Net, SingleDevice<Microbatches<2>>, Double>();
  check_near<Net, CrossModelParallel<AverageGradients, Split<2>, Split<2>, Split<2>, Split<3>>>(
      one);
  check_near<Net, Pipeline<OneFOneB, 2, Split<2>, Split<1>, Split<2>, Split<4>>>(one);
  check_near<Net, ModelParallel<Placed<apart>, Microbatches<2>>>(one);
  std::vector<double> const views = trained<Views, SingleDevice<Microbatches<2>>, Double>();
  check_near<Views, Pipeline<GPipe, 2, Split<2>, Split<2>, Split<4>>>(views);
  check_bits<Net, ModelParallel<Placed<apart>, Microbatches<4>, Reproducible<>>>(
      trained<Net, SingleDevice<Microbatches<4>, Reproducible<>>>());
}

TEST_CASE("asynchronous pipelines train on named values") {
  test::Watchdog const watchdog{"late gradients of named values"};
  TrainerOptions own = options();
  own.clip_norm = 0.0;
  auto const check = [](auto& trainer) {
    auto const data = test::dataset(Net::input::shape, 4, 48);
    double const before = trainer.evaluate(data).loss;
    for (Epoch const epoch : epochs(6)) {
      trainer.train(data, epoch);
    }
    CHECK(trainer.evaluate(data).loss < before);
  };
  Trainer<Net, Pipeline<PipeDream, 1, Split<2>, Split<2>, Split<2>, Split<3>>, Host> stashed{own};
  check(stashed);
  Trainer<Net, Pipeline<FeaturesReplay, 1, Split<2>, Split<2>, Split<5>>, Host> replayed{own};
  check(replayed);
}

template <class S>
struct Logged {
  using T = Trainer<Net, S, Host, SoftmaxCrossEntropy<>, Accuracy, test::LoggingTransport>;
  T trainer{[] {
    TrainerOptions own = options();
    own.clip_norm = 0.0;
    return own;
  }()};

  void step(int samples) {
    test::Watchdog const watchdog{"messages of named values"};
    test::Samples<float> const data{Net::input::shape, 4, samples};
    test::LoggingTransport<S::ranks>::clear();
    trainer.step(data.x, data.y);
  }
  static test::Volume of(int rank, Operation operation, char const* label = "") {
    return test::volume(test::LoggingTransport<S::ranks>::log(rank), operation, label);
  }
};

TEST_CASE("between two stages each value that is read further on goes once, and once back") {
  Logged<Pipeline<OneFOneB, 2, Split<2>, Split<1>, Split<2>, Split<4>, Reproducible<>>> four;
  four.step(6);
  // 0 to 1: what part 1 gave, which is First. 1 to 2, and 2 to 3: First, Second, the stage's own.
  // The own one of stage 1 is Second, 8 numbers; of stage 2 it is the Concat's, 24.
  std::int64_t const bytes = 6 * 4;
  test::Volume const links[] = {{2, 8 * bytes}, {4, 16 * bytes}, {6, (16 + 24) * bytes}};
  for (int s = 0; s < 3; ++s) {
    INFO("stage " << s);
    std::string const own = std::to_string(s);
    std::string const next = std::to_string(s + 1);
    CHECK(four.of(s, Operation::send, (own + "SEND_F").c_str()) == links[s]);
    CHECK(four.of(s + 1, Operation::receive, (next + "RECV_F").c_str()) == links[s]);
    CHECK(four.of(s + 1, Operation::send, (next + "SEND_B").c_str()) == links[s]);
    CHECK(four.of(s, Operation::receive, (own + "RECV_B").c_str()) == links[s]);
  }
}

template <class S>
void check_memory(int batch) {
  Trainer<Net, S, Host> trainer{{.batch = batch}};
  for (int rank = 0; rank < S::ranks; ++rank) {
    INFO("rank " << rank);
    MemoryReport const has = trainer.memory(rank);
    DeviceMemory const most = device_memory<Net, S, Sgd, Fp32>(batch, rank);
    std::int64_t const activations = has.kept + has.recomputed + has.transient;
    std::int64_t const bound = most.kept + most.recomputed + most.activation_gradients;
    CHECK(activations <= bound);
    CHECK(2 * bound <= 5 * activations);
  }
}

TEST_CASE("what a stage passes on is counted before there is a trainer") {
  check_memory<Pipeline<OneFOneB, 4, Split<2>, Split<1>, Split<2>, Split<4>, Reproducible<>>>(48);
  check_memory<
      Pipeline<OneFOneB, 4, Split<2>, Split<1>, Split<2>, Split<4>, Checkpoint<Boundaries>>>(48);
  // First, of 8 numbers a sample, goes through stage 2, which itself makes and reads others.
  using S = Pipeline<GPipe, 4, Split<2>, Split<2>, Split<2>, Split<3>>;
  static constexpr auto const& through = Program<Net, S, 4>::Device<2>::graph;
  int relays = 0;
  for (int n = 0; n < through.nodes; ++n) {
    relays += through.node[n].name == "Relay" ? 1 : 0;
  }
  CHECK(relays == 2);  // First and Second
}

}  // namespace named_values_test
}  // namespace tandem
