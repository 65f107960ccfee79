// SPDX-License-Identifier: Apache-2.0
// expect-error: load_gpt2(trainer, path) and export_gpt2(trainer, path): the network must be a
// models::Gpt<...>
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Words : Embedding<50, 16> {};
struct Other
    : Network<Tokens<8, 50>, Sequential<Words, Linear<16>, Vocabulary<50, Shares<Words>>>> {};
using Used = Other;
#else
using Used = models::Gpt<50, 8, 16, 2, 1, Percent<10>>;
#endif

void use(Trainer<Used, SingleDevice<>, Host>& trainer) { load_gpt2(trainer, "model.safetensors"); }

int main() { return 0; }
