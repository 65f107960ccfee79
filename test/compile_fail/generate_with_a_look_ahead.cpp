// SPDX-License-Identifier: Apache-2.0
// expect-error: generate(prompt): an Attention that is not Causal looks at tokens that are not
#include <vector>

#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Looks : Attention<2> {};
#else
struct Looks : Attention<2, Causal> {};
#endif
struct Net : Network<Tokens<4, 5>, Sequential<Embedding<5, 12>, Looks, Vocabulary<5>>> {};

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 1}};
  return static_cast<int>(trainer.generate(std::vector<std::int32_t>{1}).size()) > 0 ? 0 : 1;
}
