// SPDX-License-Identifier: Apache-2.0
// device_memory() and fits() of a strategy's value, against those of its type.
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/any_strategy.hpp>
#include <tandem/tandem.hpp>
#include <tandem/text.hpp>

namespace value_memory_test {

using namespace tandem;

struct Writer : models::Gpt<13, 6, 8, 2, 3, Percent<20>> {};
struct Words : models::BigLstm<13, 8, 6, 2, Stateful> {};
struct Small : Network<Vector<6>, Sequential<Linear<8>, ReLU, Linear<8>, ReLU, Linear<3>>> {};

template <class Net, class S, class Optimizer = AdamW, class Precision = Fp32>
void same(std::string const& text) {
  CAPTURE(text);
  constexpr int batch = 26;
  StrategyValue const value = read_strategy(text);
  REQUIRE(value == value_of<S>());
  std::vector<DeviceMemory> const memory = device_memory<Net, Optimizer, Precision>(value, batch);
  REQUIRE(memory.size() == static_cast<std::size_t>(S::devices));
  std::int64_t most = 0;
  for (int d = 0; d < S::devices; ++d) {
    CAPTURE(d);
    DeviceMemory const own = device_memory<Net, S, Optimizer, Precision>(batch, d);
    CHECK(memory[static_cast<std::size_t>(d)] == own);
    most = own.total() > most ? own.total() : most;
  }
  CHECK((fits<Net, Optimizer, Precision>(value, batch, most)));
  CHECK(!(fits<Net, Optimizer, Precision>(value, batch, most - 1)));
  CHECK((device_memory<Net, Optimizer, Precision>(value, batch, WeightAverages::kept, 2)[0] ==
         device_memory<Net, S, Optimizer, Precision>(batch, 0, WeightAverages::kept, 2)));
}
#define SAME(Net, ...) same<Net, __VA_ARGS__>(#__VA_ARGS__)

TEST_CASE("a value's devices need what those of its type need") {
  SAME(Writer, SingleDevice<Microbatches<4>, Reproducible<2>>);
  SAME(Writer, DataParallel<2, ShardedParameters, BucketBytes<64, 256>>);
  SAME(Writer, Pipeline<ZeroBubbleH1, 4, Split<3>, Split<2>, Split<2>>);
  SAME(Writer, Pipeline<OneFOneB, 2, Chunks<3>, Auto<2>>);
  SAME(Writer, Pipeline<PostValidated<GPipe>, 4, Auto<2>, Checkpoint<Every<1>>>);
  SAME(Writer, Hybrid<DataParallel<2>, Pipeline<Chimera, 4, Auto<2>, Reproducible<>>>);
  SAME(Small, Pipeline<PipeDream, 1, Auto<3>>);
  SAME(Writer, CrossModelParallel<AverageWeightsAndState<2>, Auto<2>>);
  SAME(Writer, TensorParallel<2, SequenceRows>);
  SAME(Words, DataParallel<2>);
  same<Writer, Pipeline<GPipe, 2, Auto<2>>, Sgd, Bf16>("Pipeline<GPipe, 2, Auto<2>>");
}

TEST_CASE("a number of replicas that is open, and no batch: a sentence") {
  StrategyValue const open = read_strategy("DataParallel<>");
  CHECK_THROWS_WITH_AS((device_memory<Writer, Sgd, Fp32>(open, 8)),
                       doctest::Contains("name their number"), ContractError);
  CHECK_THROWS_WITH_AS((device_memory<Writer, Sgd, Fp32>(StrategyValue{}, 0)),
                       doctest::Contains("give 1 sample or more"), ContractError);
}

}  // namespace value_memory_test
