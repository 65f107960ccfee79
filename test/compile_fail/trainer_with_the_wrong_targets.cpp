// SPDX-License-Identifier: Apache-2.0
// expect-error: Trainer: the dataset's Target must be the loss's
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<3>, Sequential<Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Data = TensorDataset<float>;
#else
using Data = TensorDataset<std::int32_t>;
#endif

void use(Trainer<Net, SingleDevice<>, Host>& trainer, Data const& data) { trainer.train(data, 0); }

int main() { return 0; }
