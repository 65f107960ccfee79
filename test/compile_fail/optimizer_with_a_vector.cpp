// SPDX-License-Identifier: Apache-2.0
// expect-only-error: an optimizer is copied to devices as bytes
#include <tandem/tandem.hpp>

#include <vector>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};
struct Descent {
  float learning_rate = 0.1F;
#ifdef TANDEM_COMPILE_FAIL
  std::vector<float> rates{};
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
