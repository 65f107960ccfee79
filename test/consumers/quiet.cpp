// SPDX-License-Identifier: Apache-2.0

/// @file
/// Kernels on vectors, and texts that are put together, compiled as a stranger does, without flags
/// of ours: the compiler has nothing to say, no note of vectors that are passed by value either,
/// and no false alarm of texts that overlap.

#include <tandem/tandem.hpp>

void log_all(tandem::StepLog& log, tandem::StepReport const& report,
             tandem::Evaluation const& result) {
  log(report);
  log.evaluation(tandem::TrainingPosition{}, result);
}

int main() {
  float parameter[3] = {};
  float const gradient[3] = {};
  float state[2][3] = {};
  tandem::ParameterRun<float> const run{parameter, gradient, {state[0], state[1]}};
  tandem::UpdateSettings const settings{};
  tandem::host::Team team{1};
  tandem::host::update<float>(team, 3, tandem::make_update(tandem::Sgd{}, settings, run));
  tandem::host::update<float>(team, 3, tandem::make_update(tandem::AdamW{}, settings, run));
  return 0;
}
