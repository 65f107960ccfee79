// SPDX-License-Identifier: Apache-2.0
// expect-error: CrossModelParallel<Rule, How, Options...>: say how the model is cut: Split<a>,
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>
#include <tandem/strategy/types/cross_model_parallel.hpp>

using namespace tandem;

struct Net : Network<Vector<8>, Sequential<Linear<7>, Linear<6>, Linear<5>>> {};
inline constexpr auto table = place<Net>({{"1", 1}});

#ifdef TANDEM_COMPILE_FAIL
using S = CrossModelParallel<AverageWeights<>, Placed<table>>;
#else
using S = CrossModelParallel<AverageWeights<>, Auto<2>>;
#endif

int main() { return S::ranks > 0 && S::Cut<Net>::map.devices > 0 ? 0 : 1; }
