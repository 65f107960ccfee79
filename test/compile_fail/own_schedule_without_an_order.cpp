// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Schedule, Count, ...>: the schedule has no order for so many parts and
#include <tandem/tandem.hpp>

using namespace tandem;

struct EvenPipe : GPipe {
  static constexpr char const* name = "EvenPipe";
  static constexpr bool fits(int devices, int microbatches) {
    return devices >= 1 && microbatches % 2 == 0;
  }
};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<EvenPipe, 3, Split<1>, Split<1>>;
#else
using S = Pipeline<EvenPipe, 4, Split<1>, Split<1>>;
#endif

int main() { return S::ranks == 2 ? 0 : 1; }
