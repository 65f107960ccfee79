// SPDX-License-Identifier: Apache-2.0
// expect-error: Pipeline<Schedule, Count, ...>: the devices would wait for each other forever
#include <tandem/tandem.hpp>

using namespace tandem;

template <ActionKind First, ActionKind Second>
struct OneOnly : GPipe {
  static constexpr char const* name = "OneOnly";
  template <class Sink>
  static constexpr void generate(int devices, int /*microbatches*/, Sink& sink) {
    for (int r = 0; r < devices; ++r) {
      auto const stage = static_cast<std::int16_t>(r);
      sink(r, {First, 0, stage, 0});
      sink(r, {Second, 0, stage, 0});
    }
  }
};

struct Net : Network<Vector<3>, Sequential<Linear<2>, Linear<2>>> {};

#ifdef TANDEM_COMPILE_FAIL
using Order = OneOnly<ActionKind::backward, ActionKind::forward>;
#else
using Order = OneOnly<ActionKind::forward, ActionKind::backward>;
#endif

int main() { return Program<Net, Pipeline<Order, 1, Split<1>, Split<1>>, 4>::devices == 2 ? 0 : 1; }
