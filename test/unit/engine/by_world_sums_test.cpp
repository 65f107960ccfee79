// SPDX-License-Identifier: Apache-2.0
// What a step sums where the number of replicas is known at run time only: of one nothing, of
// several what a type that says their number does.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <row_network.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace by_world_sums_test {

struct SyncNet : Network<Image<1, 4, 4>, Sequential<Conv2d<2, Kernel<3>, NoBias>, SyncBatchNorm2d<>,
                                                    ReLU, Flatten, Linear<3>>> {};

template <class Net, class S>
struct Trained {
  Trainer<Net, S, Host> trainer;

  explicit Trained(int devices = 0)
      : trainer{{.batch = 8,
                 .optimizer = Sgd{.learning_rate = 0.1F},
                 .clip_norm = 0.5,
                 .threads_per_device = 1,
                 .world = {.devices = devices}}} {
    test::Watchdog const watchdog{"by_world_sums_test"};
    test::Samples<float> const data{graph<Net>.node[0].out, 3, 8};
    for (int step = 0; step < 3; ++step) {
      trainer.step(data.x, data.y);
    }
  }
};

template <class Net, class S, class Named>
void check_same(int devices) {
  CAPTURE(devices);
  Trained<Net, S> const any{devices};
  Trained<Net, Named> const named;
  CHECK(test::first_difference(any.trainer.parameters(), named.trainer.parameters()) == "");
}

TEST_CASE("gradients of one replica are rounded for nobody") {
  using Any = DataParallel<by_world, Wire<BFloat16>>;
  check_same<test::PlainNet, Any, DataParallel<1, Wire<BFloat16>>>(1);
  check_same<test::PlainNet, Any, DataParallel<2, Wire<BFloat16>>>(2);
}

TEST_CASE("statistics of one replica are joined with nobody's") {
  using Cut = ModelParallel<Split<2>, Split<3>, Microbatches<2>>;
  Trained<SyncNet, Hybrid<DataParallel<>, Cut>> const any{2};
  Trained<SyncNet, Cut> const named;
  auto const worst =
      test::difference(any.trainer.parameters(), named.trainer.parameters(), test::Part::value);
  CAPTURE(worst.name);
  CHECK(worst.error <= 1e-5);  // sums of statistics, in another order
  check_same<SyncNet, Hybrid<DataParallel<>, Cut>, Hybrid<DataParallel<2>, Cut>>(4);
}

TEST_CASE("two models in as many replicas as there are") {
  using Models = CrossModelParallel<AverageWeights<2>, Split<2>, Split<2>>;
  using Any = Hybrid<DataParallel<>, Models>;
  TrainerOptions const options{
      .batch = 8, .optimizer = Sgd{.learning_rate = 0.1F}, .threads_per_device = 1};
  auto const trained = [&]<class S>(std::type_identity<S>, int devices) {
    test::Watchdog const watchdog{"by_world_sums_test"};
    TrainerOptions with = options;
    with.world.devices = devices;
    Trainer<test::PlainNet, S, Host> trainer{with};
    test::Samples<float> const data{image_shape(1, 4, 4), 3, 8};
    for (int step = 0; step < 3; ++step) {
      trainer.step(data.x, data.y);
    }
    return test::values_of(trainer.parameters());
  };
  CHECK(trained(std::type_identity<Any>{}, 2) == trained(std::type_identity<Models>{}, 0));
  CHECK(trained(std::type_identity<Any>{}, 4) ==
        trained(std::type_identity<Hybrid<DataParallel<2>, Models>>{}, 0));
}

TEST_CASE("a replica of several devices must be whole, and its leaves a tree") {
  using Cut = ModelParallel<Split<2>, Split<2>, Microbatches<2>>;
  auto const refusal = [&]<class S>(std::type_identity<S>, World const& world) {
    return test::message<ContractError>(
        [&] { Trainer<test::PlainNet, S, Host> const trainer{{.batch = 8, .world = world}}; });
  };
  using Any = Hybrid<DataParallel<by_world, Reproducible<4>>, Cut>;
  CHECK(refusal(std::type_identity<Any>{}, {.devices = 3}) ==
        "DataParallel<>: 3 devices are there, 1 x 3 (processes x devices of each), which are no "
        "whole replicas of 2; start more or fewer processes, or say that each has more devices "
        "(.world.devices)");
  CHECK(refusal(std::type_identity<Any>{}, {.devices = 2}) ==
        "DataParallel<>: Reproducible<> adds 4 leaves, of which each of 1 replicas must have a "
        "power of two that divides its microbatches, 2; start another number of them, or write "
        "other leaves or microbatches");
}

TEST_CASE("rows of a gradient are gathered from as many replicas as there are") {
  using Net = test::RowNet<RowGradient>;
  TrainerOptions options = test::row_options<Host>()[0];
  test::TrainedRows<Net, SingleDevice<>, Host> const one{options};
  test::TrainedRows<Net, DataParallel<3>, Host> const three{options};
  options.world.devices = 1;
  test::check_same_rows(test::TrainedRows<Net, DataParallel<>, Host>{options}, one);
  options.world.devices = 3;
  test::check_same_rows(test::TrainedRows<Net, DataParallel<>, Host>{options}, three);
}

}  // namespace by_world_sums_test
}  // namespace tandem
