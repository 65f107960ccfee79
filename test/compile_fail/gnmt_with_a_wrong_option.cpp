// SPDX-License-Identifier: Apache-2.0
// expect-error: Gnmt<V, H, N, T, Options...>: give two layers or more; options are a dropout, such
// as Percent<20>, and OwnWords
#include <tandem/graph/lower.hpp>
#include <tandem/models/gnmt.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : models::Gnmt<9, 4, 2, 5, NoBias> {};
#else
struct Net : models::Gnmt<9, 4, 2, 5, Percent<20> > {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
