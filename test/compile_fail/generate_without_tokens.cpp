// SPDX-License-Identifier: Apache-2.0
// expect-error: generate(prompt): the network must read Tokens and end with a Vocabulary
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Vector<5>, Linear<5>> {};
#else
struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Vocabulary<5>>> {};
#endif

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer;
  std::int32_t const prompt[] = {1};
  return static_cast<int>(trainer.generate(prompt, {.tokens = 0}).size());
}
