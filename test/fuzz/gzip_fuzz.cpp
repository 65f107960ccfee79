// SPDX-License-Identifier: Apache-2.0
// Fuzzes what inflates .gz files, zlib if the program has it; the first byte is the limit of the
// content in units of 64 bytes.
#include <cstddef>
#include <cstdint>

#include <tandem/core/error.hpp>
#include <tandem/io/gzip.hpp>

#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  std::size_t const limit = 64 * std::size_t{data[0]};
  try {
    auto const content = tandem::Inflate::inflate({data + 1, size - 1}, "input", limit);
    fuzz::require(content.size() <= limit);
  } catch (tandem::FileError const& error) {  // any other exception is a finding
    fuzz::require(error.path() == "input");
  }
  return 0;
}
