// SPDX-License-Identifier: Apache-2.0
// Replicas of devices that share layers, each with a part of its slice's states, or of its
// gradients, too: the bits of those that have all, and one format of checkpoints.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>

namespace tandem::test {
namespace sharded_slices_test {

using Small = BucketBytes<256, 512>;
template <class... Options>
using On = Trainer<SmallGpt, Hybrid<DataParallel<2, Small, Options...>, TensorParallel<2>>, Host>;

/// Of every replica: values, gradients and states.
template <class T>
std::vector<std::vector<float>> all_of(T const& trainer) {
  std::vector<std::vector<float>> all;
  for (int replica = 0; replica < 2; ++replica) {
    for (NamedParameter<float> const& p : trainer.parameters(replica)) {
      all.emplace_back(p.value.begin(), p.value.end());
      all.emplace_back(p.gradient.begin(), p.gradient.end());
      for (auto const& state : p.states) {
        all.emplace_back(state.begin(), state.end());
      }
    }
  }
  return all;
}

TEST_CASE("parts of a slice's states and gradients give the bits of all of them") {
  Watchdog const watchdog{"shares of slices"};
  TemporaryFolder const folder;
  On<> plain{gpt_options()};
  On<ShardedState> state{gpt_options()};
  On<ShardedGradients> gradients{gpt_options()};
  for (int step = 0; step < 3; ++step) {
    StepResult const wanted = gpt_step(plain, step);
    StepResult const got = gpt_step(state, step);
    CHECK(got.loss == wanted.loss);
    CHECK(got.gradient_norm == wanted.gradient_norm);
    CHECK(gpt_step(gradients, step).gradient_norm == wanted.gradient_norm);
  }
  CHECK(all_of(state) == all_of(plain));
  CHECK(all_of(gradients) == all_of(plain));
  plain.save(folder.file("plain"));
  state.save(folder.file("state"));
  state.export_model(folder.file("model of state"));
  plain.export_model(folder.file("model"));
  CHECK(content(folder.file("state")) == content(folder.file("plain")));
  CHECK(content(folder.file("model of state")) == content(folder.file("model")));
  gradients.load(folder.file("state"));
  CHECK(gpt_step(gradients, 3).loss == gpt_step(plain, 3).loss);
  CHECK(all_of(gradients) == all_of(plain));
  using Layout = DeviceOf<On<ShardedState>>;
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(state.memory(rank).optimizer_state == std::int64_t{2} * 4 * Layout::layout.trained / 2);
  }
}

TEST_CASE("replicas that have several slices each deal their parameters") {
  Watchdog const watchdog{"shares of several slices"};
  Trainer<SmallGpt, DataParallel<2, Small, Slices<2>>, Host> plain{gpt_options()};
  Trainer<SmallGpt, DataParallel<2, Small, Slices<2>, ShardedParameters>, Host> parts{
      gpt_options()};
  for (int step = 0; step < 3; ++step) {
    StepResult const wanted = gpt_step(plain, step);
    StepResult const got = gpt_step(parts, step);
    CHECK(got.loss == wanted.loss);
    CHECK(got.gradient_norm == wanted.gradient_norm);
  }
  CHECK(all_of(parts) == all_of(plain));
}

}  // namespace sharded_slices_test
}  // namespace tandem::test
