// SPDX-License-Identifier: Apache-2.0
// Replicas that each keep a part of the parameters: the bits of those that have all, gathered as
// passes read them, and the memory of a part and of two buckets.

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>
#include <rank_of.hpp>
#include <small_gpt.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>

namespace tandem::test {
namespace sharded_parameters_test {

using Small = BucketBytes<64, 256>;
template <class... Options>
using Tiny = Trainer<TinyNet, DataParallel<3, Small, Options...>, Host, SoftmaxCrossEntropy<>,
                     Accuracy, LoggingTransport>;

/// Of every replica: values, gradients, states and averages.
template <class T>
std::vector<std::vector<float>> all_of(T const& trainer, int replicas) {
  std::vector<std::vector<float>> all;
  for (int replica = 0; replica < replicas; ++replica) {
    for (NamedParameter<float> const& p : trainer.parameters(replica)) {
      all.emplace_back(p.value.begin(), p.value.end());
      all.emplace_back(p.gradient.begin(), p.gradient.end());
      all.emplace_back(p.average.begin(), p.average.end());
      for (auto const& state : p.states) {
        all.emplace_back(state.begin(), state.end());
      }
    }
  }
  return all;
}

TrainerOptions tiny_options() {
  TrainerOptions options = parity_options();
  options.groups = {{.pattern = "0.*", .frozen = true}};
  options.average = {.decay = 0.75, .pattern = "8.weight"};
  return options;
}

TEST_CASE("a part of the parameters each gives the bits of all of them each, files and averages") {
  Watchdog const watchdog{"parts of parameters"};
  TemporaryFolder const folder;
  Tiny<> plain{tiny_options()};
  Tiny<ShardedParameters> parts{tiny_options()};
  for (int step = 0; step < 3; ++step) {
    StepResult const wanted = parity_step(plain, step);
    StepResult const got = parity_step(parts, step);
    CHECK(got.loss == wanted.loss);
    CHECK(got.gradient_norm == wanted.gradient_norm);
  }
  CHECK(all_of(parts, 3) == all_of(plain, 3));
  auto const data = dataset(Tiny<>::input, 5, 14);
  CHECK(parts.evaluate(data).loss == plain.evaluate(data).loss);  // of averages, a replica idle
  CHECK(all_of(parts, 3) == all_of(plain, 3));
  parts.save(folder.file("parts"));
  plain.save(folder.file("plain"));
  CHECK(content(folder.file("parts")) == content(folder.file("plain")));
  parts.export_model(folder.file("model of parts"));
  plain.export_model(folder.file("model"));
  CHECK(content(folder.file("model of parts")) == content(folder.file("model")));
  Tiny<ShardedParameters> other{tiny_options()};
  other.load(folder.file("plain"));
  CHECK(parity_step(other, 3).loss == parity_step(plain, 3).loss);
  CHECK(all_of(other, 3) == all_of(plain, 3));
}

TEST_CASE("a rank allocates its part and two buckets, and fits<> counts as many") {
  Watchdog const watchdog{"memory of parts"};
  Tiny<ShardedParameters> trainer{parity_options()};
  constexpr auto const& layout = DeviceOf<decltype(trainer)>::layout;
  constexpr std::int64_t bytes = 4 * (layout.trained / 3 + 2 * largest_bucket(layout));
  static_assert(layout.buckets > 2);
  static_assert(layout.elements == layout.trained);
  using S = DataParallel<3, Small, ShardedParameters>;
  static_assert(device_memory<TinyNet, S, AdamW, Fp32>(13, 0).parameters == bytes);
  static_assert(device_memory<TinyNet, S, AdamW, Fp32>(13, 0).gradients == bytes);
  LoggingTransport<3>::clear();
  parity_step(trainer, 0);
  // Forward ends where backward begins: two buckets are there.
  Volume const gathered{2 * layout.buckets - 2, 4 * (2 * layout.trained - layout.bucket_begin[2])};
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(trainer.memory(rank).parameters == bytes);
    CHECK(volume(LoggingTransport<3>::log(rank), Operation::all_gather, "parameters") == gathered);
  }
}

template <class... Options>
using Pipe = Hybrid<DataParallel<2, Weighted<3, 1>, BucketBytes<256, 512>, Options...>,
                    Pipeline<OneFOneB, 4, Split<3>, Split<3>, Checkpoint<Every<2>>>>;

// The second replica has two samples or three for four microbatches.
TEST_CASE("so it does in a pipeline that computes again, with microbatches that have no samples") {
  Watchdog const watchdog{"parts of a pipeline"};
  Trainer<SmallGpt, Pipe<ShardedGradients>, Host> gradients{gpt_options()};
  Trainer<SmallGpt, Pipe<ShardedParameters>, Host> parts{gpt_options()};
  for (int step = 0; step < 2; ++step) {
    CHECK(gpt_step(parts, step).loss == gpt_step(gradients, step).loss);
  }
  CHECK(all_of(parts, 2) == all_of(gradients, 2));
}

}  // namespace sharded_parameters_test
}  // namespace tandem::test
