// SPDX-License-Identifier: Apache-2.0
// What a rank sends, receives and sums in a step, in its order, is what StepEffects says of its
// row.

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include <tandem/schedule/table/complete.hpp>
#include <tandem/schedule/table/effects.hpp>
#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <logging_transport.hpp>
#include <parity.hpp>

namespace tandem::test {
namespace rank_effects_test {

using detail::Effect;
using detail::EffectKind;
using detail::StepEffects;

/// Calls of communicators, or effects, in words: "2SEND_F 3", "bucket", "losses".
using Words = std::vector<std::string>;

Words calls(std::span<Record const> log) {
  Words words;
  for (Record const& record : log) {
    bool const message =
        record.operation == Operation::send || record.operation == Operation::receive;
    words.push_back(message ? to_string(record.label) : record.label.text);
  }
  return words;
}

/// What a rank calls for the effects of its row. A sum of one device is called if it has replicas.
Words calls(StepEffects const& effects, ActionRows const& rows, int device, int replicas) {
  Words words;
  for (int i = 0; i < effects.size(device); ++i) {
    Effect const& effect = effects.at(device, i);
    auto const& row = rows[static_cast<std::size_t>(device)];
    Action const& action = row[static_cast<std::size_t>(effect.place)];
    if (effect.edge >= 0) {
      words.push_back(std::to_string(action.stage) + name_of(action.kind).text + " " +
                      std::to_string(action.index));
    } else if (effect.kind == EffectKind::begin && effects.members(effect.meets) * replicas > 1) {
      words.push_back(action.kind == ActionKind::begin_loss    ? "losses"
                      : action.kind == ActionKind::reduce_norm ? "norm"
                      : effects.averages(effect.meets)         ? "average"
                                                               : "bucket");
    }
  }
  return words;
}

template <class S>
void check() {
  using T = Trainer<DeepNet, S, Host, SoftmaxCrossEntropy<>, Accuracy, LoggingTransport>;
  using Cut = Program<DeepNet, S, 4>;
  StageMapView const map{Cut::map};
  StepRules const rules{.replicas = S::ranks / map.devices, .averaging = Cut::averaging};
  ActionRows const passes = rows_of(Cut::table);
  ActionRows const rows = complete(passes, map, rules);
  StepEffects const effects{rows, map, row_order(passes, map, rules).reduces_early};
  Watchdog const watchdog{"calls of a step"};
  TrainerOptions options = parity_options();
  options.clip_norm = rules.keeps_two() ? 0.0 : options.clip_norm;  // two have two norms
  T trainer{options};
  Samples<float> const data{T::input, 5, 8};
  LoggingTransport<S::ranks>::clear();
  trainer.step(data.x, data.y);
  for (int rank = 0; rank < S::ranks; ++rank) {
    INFO("rank " << rank);
    Words const called = calls(LoggingTransport<S::ranks>::log(rank));
    CHECK(called == calls(effects, rows, rank % map.devices, rules.replicas));
    CHECK(called.size() >= 2);
  }
}

TEST_CASE("a rank calls what its row begins, sends and receives, in that order") {
  check<InTwo<ZeroBubbleH1, 4>>();
  check<InTwo<Chimera, 4>>();
  check<Hybrid<DataParallel<2>, InTwo<GPipe, 2>>>();
  check<Hybrid<DataParallel<2>, CrossModelParallel<AverageWeights<>, Split<5>, Split<7>>>>();
}

}  // namespace rank_effects_test
}  // namespace tandem::test
