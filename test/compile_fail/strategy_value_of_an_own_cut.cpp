// SPDX-License-Identifier: Apache-2.0
// expect-only-error: value_of<S>(): this strategy cuts networks in a way of its own, which no value
#include <tandem/any_strategy.hpp>
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};
struct Halves : ModelParallel<Split<1>, Split<1>> {
#ifdef TANDEM_COMPILE_FAIL
  template <class Net>
  struct Cut : ModelParallel<Split<1>, Split<1>>::Cut<Net> {};
#endif
};

int main() { return value_of<Hybrid<DataParallel<2>, Halves>>().parts == 2 ? 0 : 1; }
