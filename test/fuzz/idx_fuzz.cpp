// SPDX-License-Identifier: Apache-2.0
// Fuzzes the IDX parser: the first byte's lowest bit chooses images (1) or labels (0), the rest is
// the file. Images that are accepted are read as a split with labels made to fit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/data/idx.hpp>

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// Reads the first and the last sample, whose pixels are fractions.
void read_ends(std::span<std::uint8_t const> images, std::int64_t count) {
  std::vector<std::uint8_t> labels{0, 0, 8, 1};
  for (int shift = 24; shift >= 0; shift -= 8) {
    labels.push_back(static_cast<std::uint8_t>(count >> shift));
  }
  labels.resize(labels.size() + static_cast<std::size_t>(count), 9);
  tandem::IdxSplit const split{{images.begin(), images.end()}, labels, "images", "labels"};
  require(split.size() == count);
  std::vector<float> x(static_cast<std::size_t>(split.shape().elements()));
  std::vector<std::int32_t> y(1);
  for (std::int64_t const sample : {std::int64_t{0}, count - 1}) {
    split.read(sample, x, y);
    require(y[0] == 9);
    for (float const pixel : x) {
      require(pixel >= 0.0F && pixel <= 1.0F);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  int const rank = (data[0] & 1U) != 0 ? 3 : 1;
  std::span<std::uint8_t const> const file{data + 1, size - 1};
  try {
    tandem::IdxHeader const header = tandem::parse_idx(file, "fuzzed", rank);
    std::int64_t const values = header.count * header.rows * header.columns;
    require(header.count > 0 && header.rows > 0 && header.columns > 0);
    require(header.bytes + static_cast<std::size_t>(values) == file.size());
    if (rank == 3) {
      read_ends(file, header.count);
    }
  } catch (tandem::FileError const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
