// SPDX-License-Identifier: Apache-2.0
// expect-error: in this schedule a device takes a microbatch's message before it sends others' on
#include <tandem/tandem.hpp>

using namespace tandem;

/// All microbatches through a device's first stage before the second.
struct BreadthFirst {
  static constexpr char const* name = "BreadthFirst";
  static constexpr int chunks = 2;
  static constexpr int copies = 1;
  static constexpr bool splits_backward = false;
  static constexpr bool fits(int devices, int microbatches) {
    return devices == 2 && microbatches == 3;
  }
  template <class Sink>
  static constexpr void generate(int /*devices*/, int microbatches, Sink& sink) {
    for (int pass = 0; pass < 8 * microbatches; ++pass) {
      int const turn = pass / microbatches;
      auto const stage = static_cast<std::int16_t>(turn < 4 ? turn : 7 - turn);
      ActionKind const kind = turn < 4 ? ActionKind::forward : ActionKind::backward;
      sink(stage % 2, {kind, 0, stage, pass % microbatches});
    }
  }
};

struct Net : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Lstm<4>, Linear<4>, Vocabulary<5>>> {
};

#ifdef TANDEM_COMPILE_FAIL
using S = Pipeline<BreadthFirst, 3, Chunks<4>, Split<1>, Split<1>, Split<1>, Split<1>>;
#else
using S = Pipeline<BreadthFirst, 3, Split<1>, Split<1>, Split<1>, Split<1>>;
#endif

int main() { return Program<Net, S, 4>::devices == 2 ? 0 : 1; }
