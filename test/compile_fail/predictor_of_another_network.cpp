// SPDX-License-Identifier: Apache-2.0
// expect-error: Predictor::take(trainer): the trainer's network has other parameters than this one
#include <tandem/tandem.hpp>

using namespace tandem;

template <int Classes>
struct Net : Network<Vector<5>, Linear<Classes>> {};

#ifdef TANDEM_COMPILE_FAIL
using Other = Net<6>;
#else
using Other = Net<5>;
#endif

int main() {
  Trainer<Other, SingleDevice<>, Host> trainer{{.batch = 1}};
  Predictor<Net<5>, Host> predictor;
  predictor.take(trainer);
  return predictor.predict(std::vector<float>(5)).size() == 5 ? 0 : 1;
}
