// SPDX-License-Identifier: Apache-2.0
// All of tandem in a file that nvcc compiles, and Host trains there. It launches nothing, so it
// runs without a GPU.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <tandem/tandem.hpp>

namespace td = tandem;

struct Net : td::Network<td::Tokens<4, 7>,
                         td::Sequential<td::Embedding<7, 8>, td::RmsNorm<>, td::Linear<24>,
                                        td::Attention<2, td::Causal>, td::GeluTanh, td::Linear<16>,
                                        td::SwiGlu, td::Residual<td::LayerNorm<>>, td::MeanOverTime,
                                        td::ReLU, td::Linear<3>>> {};

int main() {
  constexpr auto shape = tandem::Image<3, 32, 32>::shape;
  static_assert(shape.elements() == 3072);
  static_assert(td::fits<Net, td::SingleDevice<>, td::AdamW, td::Fp32>(2, 1 << 20));
  td::Trainer<Net, td::SingleDevice<>, td::Host> trainer{
      {.batch = 2, .optimizer = td::AdamW{.learning_rate = 0.1F}, .threads_per_device = 1}};
  std::vector<std::int32_t> const tokens{1, 2, 3, 4, 6, 5, 4, 3};
  std::vector<std::int32_t> const labels{0, 2};
  double const first = trainer.step(tokens, labels).loss;
  double last = first;
  for (int step = 0; step < 20; ++step) {
    last = trainer.step(tokens, labels).loss;
  }
  std::printf("%s, loss %.3f, then %.3f\n", to_string(shape).c_str(), first, last);
  return last < 0.5 * first ? 0 : 1;
}
