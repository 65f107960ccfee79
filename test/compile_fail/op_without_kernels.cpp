// SPDX-License-Identifier: Apache-2.0
// expect-error: Op<Layer, Backend>: this layer has no kernels for this backend
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Twice {
  static constexpr std::string_view name = "Twice";
  static constexpr Shape output(Shape in) { return in; }
};
#else
struct Twice {
  static constexpr std::string_view name = "Twice";
  static constexpr Shape output(Shape in) { return in; }
  static void forward(auto const& call) { call.y[0] = 2 * call.x[0]; }
  static void input_gradient(auto const& call) { call.dx[0] = 2 * call.dy[0]; }
};
#endif

struct Net : Network<Vector<1>, Sequential<Linear<1>, Twice>> {};
using Train = Trainer<Net, SingleDevice<>, Host, MeanSquaredError>;

int main() { return Train{}.position().step == 0 ? 0 : 1; }
