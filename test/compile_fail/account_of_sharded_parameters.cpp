// SPDX-License-Identifier: Apache-2.0
// expect-error: step_account<Net, DataParallel<N, ShardedParameters>>: it counts the kernels of a
#include <tandem/measure/account/step_account.hpp>
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Shards = ShardedParameters;
#else
using Shards = ShardedGradients;
#endif

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

int main() {
  return step_account<Net, DataParallel<2, Shards>>({.batch = 8}).kernels() > 0 ? 0 : 1;
}
