// SPDX-License-Identifier: Apache-2.0
// expect-error: confusion(data): the loss must be of one label a sample
#include <cstdint>
#include <vector>

#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<1>, Sequential<Linear<2>>> {};
#ifdef TANDEM_COMPILE_FAIL
using LossType = MeanSquaredError;
#else
using LossType = SoftCrossEntropy<>;
#endif

int main() {
  Trainer<Net, SingleDevice<>, Host, LossType> trainer{{.batch = 1}};
  TensorDataset<float> const data{vector_shape(1), {1.0F}, {0.0F, 1.0F}, 2};
  return trainer.confusion(data).classes() == 2 ? 0 : 1;
}
