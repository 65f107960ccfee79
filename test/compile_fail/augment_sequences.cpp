// SPDX-License-Identifier: Apache-2.0
// expect-error: augment(data, ...): its transforms are of images and vectors
#include <tandem/data/augment.hpp>

#include <cstdint>
#include <span>

using namespace tandem;

struct Rows {
  using Target = std::int32_t;
  [[nodiscard]] static std::int64_t size() { return 4; }
  [[nodiscard]] static Shape shape() { return timed_shape(3, 2); }
  [[nodiscard]] static int targets() { return 1; }
  static void read(std::int64_t, std::span<float>, std::span<Target>) {}
#ifdef TANDEM_COMPILE_FAIL
  [[nodiscard]] static int length(std::int64_t index) { return 1 + static_cast<int>(index % 3); }
#endif
};

int main() { return augment(Rows{}, Normalize{0.0F, 1.0F}).size() == 4 ? 0 : 1; }
