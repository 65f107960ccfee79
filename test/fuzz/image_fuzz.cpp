// SPDX-License-Identifier: Apache-2.0
// Fuzzes what reads JPEG and PNG: the file is decoded, made grey and RGBA, and resized. Programs
// without the libraries have nothing to fuzz.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <tandem/core/error.hpp>
#include <tandem/data/image/decode.hpp>
#include <tandem/data/image/resample.hpp>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
#if defined(TANDEM_IMAGES) && TANDEM_IMAGES
  try {
    tandem::Pixels const image = tandem::ImageDecode::decode({data, size}, "fuzzed", 1 << 18);
    for (int const channels : {1, 3, 4}) {
      tandem::Pixels const out = tandem::resize(tandem::with_channels(image, channels), 5, 7);
      if (out.bytes.size() != std::size_t{35} * static_cast<std::size_t>(channels)) {
        std::abort();
      }
    }
  } catch (tandem::FileError const&) {
    return 0;  // any other exception is a finding
  }
#else
  static_cast<void>(data);
  static_cast<void>(size);
#endif
  return 0;
}
