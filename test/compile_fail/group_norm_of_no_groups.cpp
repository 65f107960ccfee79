// SPDX-License-Identifier: Apache-2.0
// expect-error: GroupNorm<Groups, Options...>: give a positive number of groups
#include <tandem/graph/lower.hpp>
#include <tandem/layers/group_norm.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 8, 8>, Sequential<GroupNorm<0>>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<GroupNorm<1>>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
