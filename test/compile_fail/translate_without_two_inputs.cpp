// SPDX-License-Identifier: Apache-2.0
// expect-error: translate(data): the network must be on Inputs<Tokens, Tokens>, its second input
#include <tandem/tandem.hpp>

using namespace tandem;

struct Source;
struct Query;
#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Tokens<4, 5>, Sequential<Embedding<5, 4>, Vocabulary<5>>> {};
#else
struct Net
    : Network<Inputs<Tokens<4, 5>, Tokens<4, 5>>,
              Sequential<Embedding<5, 4>, Let<Source>, Sequential<Input<1>, Embedding<5, 4>>,
                         Let<Query>, Join<Bahdanau<3>, Use<Query>, Use<Source>>, Vocabulary<5>>> {};
#endif

struct Sentences {
  using Input = std::int32_t;
  using Target = std::int32_t;
  std::int64_t size() const { return 1; }
  Shape shape() const { return tokens_shape(4); }
  Shape second_shape() const { return tokens_shape(4); }
  int targets() const { return 4; }
  int length(std::int64_t) const { return 2; }
  int second_length(std::int64_t) const { return 1; }
  std::int32_t begin() const { return 3; }
  std::int32_t end() const { return 4; }
  void read(std::int64_t, std::span<std::int32_t>, std::span<std::int32_t>,
            std::span<std::int32_t>) const {}
};

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 5}};
  return static_cast<int>(translate(trainer, Sentences{}).size()) == 1 ? 0 : 1;
}
