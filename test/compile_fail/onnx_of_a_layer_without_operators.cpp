// SPDX-License-Identifier: Apache-2.0
// expect-error: export_onnx(trainer, path): this layer has no operators of ONNX
#include <string>
#include <string_view>

#include <tandem/onnx.hpp>
#include <tandem/tandem.hpp>

struct Doubled {
  static constexpr std::string_view name = "Doubled";
  static constexpr tandem::Shape output(tandem::Shape in) { return in; }
  static void forward(auto const& call) {
    for (std::size_t i = 0; i < call.x.size(); ++i) {
      call.y[i] = call.x[i] + call.x[i];
    }
  }
  static void input_gradient(auto const& call) {
    for (std::size_t i = 0; i < call.dy.size(); ++i) {
      call.dx[i] = call.dy[i] + call.dy[i];
    }
  }
};

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Last = Doubled;
#else
using Last = ReLU;
#endif
struct Net : Network<Vector<5>, Sequential<Linear<5>, Last>> {};

int main(int argc, char** argv) {
  Predictor<Net, Host> predictor;
  export_onnx(predictor, argc > 1 ? argv[1] : "net.onnx");
  return 0;
}
