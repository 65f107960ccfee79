// SPDX-License-Identifier: Apache-2.0
// expect-error: this layer does not accept its input: output(Shape) gave no shape
#include <tandem/graph/lower.hpp>
#include <tandem/layers/activation.hpp>

using namespace tandem;

struct HalfHeight {
  static constexpr std::string_view name = "HalfHeight";
  static constexpr Shape output(Shape in) {
    return in[1] % 2 == 0 ? image_shape(in[0], in[1] / 2, in[2]) : Shape{};
  }
};

#ifdef TANDEM_COMPILE_FAIL
struct Net : Network<Image<3, 7, 8>, Sequential<ReLU, HalfHeight>> {};
#else
struct Net : Network<Image<3, 8, 8>, Sequential<ReLU, HalfHeight>> {};
#endif

int main() { return graph<Net>.nodes > 0 ? 0 : 1; }
