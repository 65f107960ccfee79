// SPDX-License-Identifier: Apache-2.0
// expect-beside-error: RateIsATypeSuchAsPercent50
// expect-lines: 12
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<1, 8, 8>, Sequential<Dropout<0.5>, Flatten, Linear<3>>> {};
#else
struct Net : Network<Image<1, 8, 8>, Sequential<Dropout<Percent<50>>, Flatten, Linear<3>>> {};
#endif

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}};
  return trainer.parameters().size() >= 2 ? 0 : 1;
}
