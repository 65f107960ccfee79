// SPDX-License-Identifier: Apache-2.0
// expect-error: LossOp<Loss, Backend>: this loss has no kernels for this backend
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Distance {
  using Target = float;
  static constexpr std::string_view name = "Distance";
  static constexpr int targets(Shape) { return 1; }
};
#else
struct Distance {
  using Target = float;
  static constexpr std::string_view name = "Distance";
  static constexpr int targets(Shape) { return 1; }
  static double value(auto output, auto target) { return output[0] > target[0] ? 1.0 : -1.0; }
  static void gradient(auto output, auto target, auto dy) {
    dy[0] = output[0] > target[0] ? 1.0F : -1.0F;
  }
};
#endif

struct Net : Network<Vector<3>, Sequential<Linear<1>>> {};
using Train = Trainer<Net, SingleDevice<>, Host, Distance>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
