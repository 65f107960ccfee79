// SPDX-License-Identifier: Apache-2.0

/// @file
/// A layer of the user's own has a kernel of its own, which a C++ compiler alone cannot translate.
/// This file must not compile, and the one error must say what to do.

#include <string_view>

#include <tandem/cuda.cuh>

namespace td = tandem;

struct Square : td::ElementLayer<Square> {
  static constexpr std::string_view name = "Square";
  template <class R>
  TANDEM_HOST_DEVICE static R value(R x) {
    return x * x;
  }
  template <class R>
  TANDEM_HOST_DEVICE static R slope(R x) {
    return R{2} * x;
  }
};
struct Net : td::Network<td::Vector<4>, td::Sequential<td::Linear<4>, Square, td::Linear<2>>> {};

int main() {
  td::Trainer<Net, td::SingleDevice<>, td::Cuda> trainer{{.batch = 4, .optimizer = td::Sgd{}}};
  return 0;
}
