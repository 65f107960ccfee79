// SPDX-License-Identifier: Apache-2.0
// All of tandem in a file that nvcc compiles. It launches nothing, so it runs without a GPU.
#include <cstdio>

#include <tandem/tandem.hpp>

int main() {
  constexpr auto shape = tandem::Image<3, 32, 32>::shape;
  static_assert(shape.elements() == 3072);
  auto const r = tandem::philox(1, tandem::RandomUse::user, 0, 0);
  std::printf("%s %.3f\n", to_string(shape).c_str(), tandem::uniform(r.word[0]));
  return tandem::uniform(r.word[0]) < 1.0F ? 0 : 1;
}
