// SPDX-License-Identifier: Apache-2.0
// expect-only-error: an optimizer's type has a member `float learning_rate`
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};
struct Descent {
#ifdef TANDEM_COMPILE_FAIL
  float rate = 0.1F;
#else
  float learning_rate = 0.1F;
#endif
  static constexpr std::string_view name = "Descent";
  template <class V>
  V next(V p, V g, auto const& settings) const {
    return p - V{settings.learning_rate} * g;
  }
};

int main() {
  Trainer<Net, SingleDevice<>, Host> trainer{{.batch = 8}, Descent{}};
  return trainer.parameters().size() == 2 ? 0 : 1;
}
