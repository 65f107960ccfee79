// SPDX-License-Identifier: Apache-2.0
// expect-only-error: augment(data, ...): transforms are of one input, and data has two
#include <tandem/data/augment.hpp>

#include <cstdint>
#include <span>

using namespace tandem;

struct Rows {
  using Target = std::int32_t;
  [[nodiscard]] static std::int64_t size() { return 4; }
  [[nodiscard]] static int targets() { return 1; }
#ifdef TANDEM_COMPILE_FAIL
  using Input = std::int32_t;
  [[nodiscard]] static Shape shape() { return tokens_shape(3); }
  [[nodiscard]] static Shape second_shape() { return tokens_shape(3); }
  [[nodiscard]] static int length(std::int64_t) { return 3; }
  [[nodiscard]] static int second_length(std::int64_t) { return 3; }
  static void read(std::int64_t, std::span<Input>, std::span<Input>, std::span<Target>) {}
#else
  [[nodiscard]] static Shape shape() { return vector_shape(3); }
  static void read(std::int64_t, std::span<float>, std::span<Target>) {}
#endif
};

using Augmentation = Augmented<Rows, Normalize>;

int main() { return sizeof(Augmentation) > 0 ? 0 : 1; }
