// SPDX-License-Identifier: Apache-2.0
// expect-error: Program<Net, S>: S::mesh must have S::ranks ranks
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>

struct Net : tandem::Network<tandem::Vector<4>, tandem::Sequential<tandem::Linear<3>>> {};

struct Own : tandem::DataParallel<2> {
#ifdef TANDEM_COMPILE_FAIL
  static constexpr int ranks = 3;
#endif
};

int main() { return tandem::Program<Net, Own, 4>::ranks == 2 ? 0 : 1; }
