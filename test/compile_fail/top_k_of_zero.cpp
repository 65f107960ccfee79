// SPDX-License-Identifier: Apache-2.0
// expect-error: TopK<K>: give a positive number
#include <tandem/layers/loss.hpp>

#ifdef TANDEM_COMPILE_FAIL
constexpr int k = tandem::TopK<0>::k;
#else
constexpr int k = tandem::TopK<1>::k;
#endif

int main() { return k > 1 ? 1 : 0; }
