// SPDX-License-Identifier: Apache-2.0
// Compiled with -ffast-math: what is not finite is found all the same. Prints what is not.
#include <cstdio>
#include <limits>
#include <string>

#include <tandem/engine/step/sums.hpp>
#include <tandem/train/options/check_rates.hpp>

using namespace tandem;

namespace {

int faults = 0;

void check(bool good, char const* what) {
  if (!good) {
    std::printf("not so under -ffast-math: %s\n", what);
    ++faults;
  }
}

// The compiler must not know them.
double const volatile no_number = std::numeric_limits<double>::quiet_NaN();
double const volatile unbounded = std::numeric_limits<double>::infinity();

int microbatch_of(double loss) {
  double const sums[] = {1.0, 0.0, loss, 0.0, loss, 0.0};
  StepResult result;
  finish_sums(sums, 1, result);
  return result.non_finite;
}

bool refused(TrainerOptions const& options) {
  try {
    check_rates(options);
  } catch (ContractError const&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  check(microbatch_of(no_number) == 1, "a loss of nan is found");
  check(microbatch_of(unbounded) == 1 && microbatch_of(-unbounded) == 1, "a loss of inf is found");
  check(microbatch_of(2.0) == -1, "other losses are taken");
  for (double const value : {double{no_number}, double{unbounded}}) {
    auto const bad = static_cast<float>(value);
    check(refused({.optimizer = Sgd{.learning_rate = bad}}), "a learning rate is refused");
    check(refused({.optimizer = Adam{.beta2 = bad}}), "a beta is refused");
    check(refused({.clip_norm = value}), "a clip_norm is refused");
  }
  check(!refused({.optimizer = Adam{}, .clip_norm = 1.0}), "other options are taken");
  return faults == 0 ? 0 : 1;
}
