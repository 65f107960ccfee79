// SPDX-License-Identifier: Apache-2.0
// A trainer whose strategy is chosen at start; test/bits holds all strategies against their types.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/any_strategy.hpp>
#include <tandem/schedules.hpp>
#include <tandem/tandem.hpp>

#include <temporary_folder.hpp>

namespace any_strategy_test {

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<8>, ReLU, Linear<8>, ReLU, Linear<3>>> {};
using Any = Trainer<Net, AnyStrategy, BasicHost<Portable>>;

std::vector<float> const x(8 * 4, 0.5F);
std::vector<std::int32_t> const y{0, 1, 2, 0, 1, 2, 0, 1};

template <class Own>
double third_loss(Own& trainer) {
  trainer.step(x, y);
  trainer.step(x, y);
  return trainer.step(x, y).loss;
}

std::string refusal(std::string_view strategy) {
  try {
    Any const trainer{strategy, {.batch = 8}};
  } catch (ContractError const& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("a strategy that is text trains as its type does, and says what it is") {
  Any chosen{"Hybrid< DataParallel<2>, td::Pipeline<OneFOneB,2,Split<2>,Split<3>> >", {.batch = 8}};
  using S = Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>;
  Trainer<Net, S, BasicHost<Portable>> typed{{.batch = 8}};
  CHECK(third_loss(chosen) == third_loss(typed));
  CHECK(type_text(chosen.strategy()) ==
        "Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>");
  CHECK(chosen.memory().total() == typed.memory().total());
  Any of_world{"DataParallel<>", {.batch = 8, .world = {.devices = 2}}};
  Any of_two{value_of<DataParallel<2>>(), {.batch = 8}};
  CHECK(third_loss(of_world) == third_loss(of_two));
  using Four = Pipeline<OneFOneB, 4, Split<2>, Split<3>>;
  ActionRows const rows = make_schedule("gpipe", 2, 4);  // in place of the strategy's
  Any of_rows{value_of<Four>(), {.batch = 8, .rows = rows}};
  Trainer<Net, Four, BasicHost<Portable>> of_type{{.batch = 8, .rows = rows}};
  CHECK(third_loss(of_rows) == third_loss(of_type));
}

TEST_CASE("a strategy that cannot be is refused at start, in a sentence") {
  CHECK(test::contains(refusal("DataParalel<2>"), "DataParalel"));
  CHECK(test::contains(refusal("DataParallel<2, Wire<BFloat16>>"), "Wire<E>"));
  CHECK(test::contains(refusal("ModelParallel<Split<2>, Split<2>>"), "add up to 4"));
  CHECK(test::contains(refusal("ModelParallel<Auto<6>>"), "5 top-level layers"));
  CHECK(test::contains(refusal("TensorParallel<5>"), "nothing that N devices could share"));
  CHECK(test::contains(refusal("Pipeline<Interleaved<2>, 5, Auto<4>>"), "microbatches"));
  CHECK(test::contains(refusal("DataParallel<16>"), "microbatch"));
  CHECK(refusal("SingleDevice<>") == "none");
}

}  // namespace any_strategy_test
