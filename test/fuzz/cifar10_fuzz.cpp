// SPDX-License-Identifier: Apache-2.0
// Fuzzes the CIFAR-10 parser, and reads the first and the last sample of what it accepts.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/data/cifar10.hpp>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    tandem::Cifar10Split const split{{data, data + size}, "fuzzed"};
    require(split.size() > 0);
    require(static_cast<std::size_t>(split.size()) * tandem::cifar10_record == size);
    std::vector<float> x(tandem::cifar10_record - 1);
    std::vector<std::int32_t> y(1);
    for (std::int64_t const sample : {std::int64_t{0}, split.size() - 1}) {
      split.read(sample, x, y);
      require(y[0] >= 0 && y[0] <= 9);
      for (float const pixel : x) {
        require(pixel >= 0.0F && pixel <= 1.0F);
      }
    }
  } catch (tandem::FileError const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
