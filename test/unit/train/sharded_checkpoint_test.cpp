// SPDX-License-Identifier: Apache-2.0
// Checkpoints of replicas that each have a part of the optimizer's states: one format, whichever
// number of replicas wrote it, and whether they had all states or parts.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace sharded_checkpoint_test {

using test::contains;
using test::message;
using R = Reproducible<4>;
using Small = BucketBytes<64, 256>;
using One = SingleDevice<Microbatches<4>, R>;
using Two = DataParallel<2, Microbatches<2>, R, Small, ShardedState>;
using Four = DataParallel<4, R, Small, ShardedState>;

template <class S>
using On = Trainer<test::PlainNet, S, Host>;

TrainerOptions options() {
  return {.batch = 12,
          .optimizer = AdamW{.learning_rate = 0.01F},
          .average = {.decay = 0.75, .pattern = "*.weight"},
          .seed = 7,
          .threads_per_device = 1};
}

template <class T>
double take_step(T& trainer, int step) {
  test::Samples<float> const data{T::input, 3, 12, static_cast<std::uint64_t>(step)};
  return trainer.step(data.x, data.y).loss;
}

// Of values, states and averages.
template <class T>
std::vector<std::vector<float>> bits_of(T const& trainer) {
  std::vector<std::vector<float>> all;
  for (auto const& p : trainer.parameters()) {
    all.emplace_back(p.value.begin(), p.value.end());
    all.emplace_back(p.average.begin(), p.average.end());
    for (auto const& state : p.states) {
      all.emplace_back(state.begin(), state.end());
    }
  }
  return all;
}

template <class From, class To>
void check_goes_on() {
  test::Watchdog const watchdog{"a checkpoint of shards"};
  test::TemporaryFolder const folder;
  On<From> whole{options()};
  take_step(whole, 0);
  take_step(whole, 1);
  whole.save(folder.file("saved"));
  std::string const in_folder = whole.save_in(folder.file("steps"));
  On<To> other{options()};
  other.load(folder.file("saved"));
  On<To> third{options()};
  third.load(in_folder);
  for (int step = 2; step < 4; ++step) {
    double const loss = take_step(whole, step);
    CHECK(take_step(other, step) == loss);
    CHECK(take_step(third, step) == loss);
  }
  CHECK(bits_of(other) == bits_of(whole));
  CHECK(bits_of(third) == bits_of(whole));
}

TEST_CASE("what replicas with parts of the states saved others continue, bit for bit") {
  check_goes_on<Two, Four>();
  check_goes_on<Four, One>();
  check_goes_on<One, Two>();
}

TEST_CASE("the file is that of one device, byte for byte") {
  test::TemporaryFolder const folder;
  On<One> one{options()};
  On<Four> four{options()};
  for (int step = 0; step < 2; ++step) {
    take_step(one, step);
    take_step(four, step);
  }
  one.save(folder.file("one"));
  four.save(folder.file("four"));
  CHECK(test::content(folder.file("four")) == test::content(folder.file("one")));
  one.export_model(folder.file("one model"));
  four.export_model(folder.file("four model"));
  CHECK(test::content(folder.file("four model")) == test::content(folder.file("one model")));
}

/// Trained, then a weight set; the steps after it go by that weight and the states of before.
template <class S>
std::vector<std::vector<float>> bits_with_a_weight_set() {
  On<S> trainer{options()};
  take_step(trainer, 0);
  auto const p = trainer.parameters().front();
  std::vector<float> values(p.value.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 0.01F * static_cast<float>(i % 7);
  }
  trainer.set_parameter(p.name, values);
  for (int replica = 0; replica < On<S>::ProgramType::ranks; ++replica) {
    auto const now = trainer.parameters(replica).front();
    CHECK(std::ranges::equal(now.value, values));
    CHECK(std::ranges::equal(now.average, values));
  }
  take_step(trainer, 1);
  return bits_of(trainer);
}

TEST_CASE("a weight that is set is every replica's, and nothing else changes") {
  test::Watchdog const watchdog{"a weight that is set"};
  using Values = decltype(On<One>{options()}.parameters().front().value);
  static_assert(std::is_same_v<Values, std::span<float const>>);
  std::vector<std::vector<float>> const wanted = bits_with_a_weight_set<One>();
  CHECK(bits_with_a_weight_set<Two>() == wanted);
  CHECK(bits_with_a_weight_set<Four>() == wanted);
}

TEST_CASE("a weight that is set must be there and have its size") {
  On<One> trainer{options()};
  auto const p = trainer.parameters().front();
  std::vector<float> const before(p.value.begin(), p.value.end());
  std::vector<float> const values(p.value.size() + 1);
  CHECK(message<ContractError>([&] { trainer.set_parameter("nobody", values); }) ==
        "set_parameter(name, values): the network has no parameter 'nobody'; parameters() lists "
        "the names");
  CHECK(message<ContractError>([&] { trainer.set_parameter(p.name, values); }) ==
        "set_parameter(name, values): '" + p.name + "' has " + std::to_string(before.size()) +
            " numbers, but " + std::to_string(values.size()) +
            " values are given; give one for each");
  CHECK(std::ranges::equal(trainer.parameters().front().value, before));
}

TEST_CASE("averages of parts are whole in an evaluation, and the weights come back") {
  test::Watchdog const watchdog{"averages of shards"};
  On<One> one{options()};
  On<Four> four{options()};
  take_step(one, 0);
  take_step(four, 0);
  take_step(one, 1);
  take_step(four, 1);
  auto const before = bits_of(four);
  auto const data = test::dataset(On<One>::input, 3, 24);
  CHECK(four.evaluate(data).loss == one.evaluate(data).loss);
  CHECK(bits_of(four) == before);
  CHECK(take_step(four, 2) == take_step(one, 2));
  CHECK(bits_of(four) == bits_of(one));
}

static_assert(after_failure(GroupState::works, WorkKind::gathers, false) == GroupState::readable);

TEST_CASE("after a failure parts of the states cannot be gathered, and that is said") {
  check_can(GroupState::works, WorkKind::gathers);
  std::string const why =
      message<ContractError>([] { check_can(GroupState::readable, WorkKind::gathers); });
  CHECK(contains(why, "with ShardedState each rank has its part"));
  CHECK(contains(why, "export_model()"));
}

}  // namespace sharded_checkpoint_test
}  // namespace tandem
