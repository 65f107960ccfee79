// SPDX-License-Identifier: Apache-2.0
// expect-error: fits<Net, DataParallel<>, ...>, device_memory, describe and step_account: a
#include <tandem/layers/linear.hpp>
#include <tandem/optim/optimizer.hpp>
#include <tandem/strategy/fits.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = DataParallel<>;
#else
using S = DataParallel<2>;
#endif

int main() { return fits<Net, S, Sgd, Fp32>(8, 1 << 20) ? 0 : 1; }
