// SPDX-License-Identifier: Apache-2.0
// expect-error: Shares<W> with Reproducible<>: more than two devices hold this weight, whose
#include <tandem/tandem.hpp>

using namespace tandem;

/// y = x, with the weight of Words.
struct Look {
  using shares = struct Words;
  static constexpr std::string_view name = "Look";
  static constexpr Shape output(Shape in) { return in; }
  static constexpr Parameters parameters(Shape) {
    return Parameters{Parameter{"weight", {2, {5, 4}}, Init::constant(0.0F)}};
  }
};
struct Words : Embedding<5, 4> {};
struct Net : Network<Tokens<8, 5>, Sequential<Words, Look, Vocabulary<5, Shares<Words>>>> {};

#ifdef TANDEM_COMPILE_FAIL
using S = ModelParallel<Split<1>, Split<1>, Split<1>, Reproducible<>>;
#else
using S = ModelParallel<Split<1>, Split<2>, Reproducible<>>;
#endif

int main() { return Program<Net, S, 4>::ties.widest() > 0 ? 0 : 1; }
