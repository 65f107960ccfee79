// SPDX-License-Identifier: Apache-2.0
// expect-error: Placed<table>: the table is of another network; make it with place<Net> of the
#include <tandem/layers/linear.hpp>
#include <tandem/strategy/program.hpp>

using namespace tandem;

struct Net : Network<Vector<8>, Sequential<Linear<7>, Linear<6>, Linear<5>>> {};
struct Other : Network<Vector<8>, Sequential<Linear<7>, Linear<5>>> {};
inline constexpr auto right = place<Net>({{"1", 1}});
inline constexpr auto wrong = place<Other>({{"1", 1}});

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Placed<wrong>>;
#else
using S = ModelParallel<Placed<right>>;
#endif

int main() { return S::ranks > 0 && S::Cut<Net>::map.devices > 0 ? 0 : 1; }
