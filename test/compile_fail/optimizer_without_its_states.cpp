// SPDX-License-Identifier: Apache-2.0
// expect-only-error: an optimizer's type has `template <class V> V next(V p, V g, V (&state)[N]
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};
struct HeavyBall {
  float learning_rate = 0.1F;
  static constexpr std::string_view name = "HeavyBall";
#ifndef TANDEM_COMPILE_FAIL
  static constexpr std::string_view state_names[] = {"velocity"};
#endif
  template <class V>
  V next(V p, V g, V (&state)[1], auto const& settings) const {
    state[0] = V{0.9F} * state[0] + g;
    return p - V{settings.learning_rate} * state[0];
  }
};

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}, HeavyBall{}};
  return trainer.parameters().size() == 2 ? 0 : 1;
}
