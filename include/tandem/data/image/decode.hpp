// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ImageDecode: how this program reads images, with libjpeg-turbo and libpng or not at all.
///
/// tandem needs no library. A program that defines TANDEM_IMAGES=1 and links -ljpeg -lpng reads
/// images; any other is told what to do. The macro chooses what an alias names, never the body of a
/// function.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/image/jpeg.hpp>
#include <tandem/data/image/pixels.hpp>
#include <tandem/data/image/png.hpp>

namespace tandem {

/// What decodes an image file with content @p bytes; the name is for messages.
template <class D>
concept ImageDecoder = requires(std::span<std::uint8_t const> bytes, std::string const& name) {
  { D::decode(bytes, name) } -> std::same_as<Pixels>;
};

/// The ImageDecoder of a program without the libraries.
struct NoImages {
  /// @throws FileError  always: it says how to get along
  TANDEM_ONCE [[noreturn]] static Pixels decode(std::span<std::uint8_t const>,
                                                std::string const& name);
};

#if defined(TANDEM_IMAGES) && TANDEM_IMAGES

/// JPEG or PNG: the first bytes say which, whatever the name does.
struct JpegAndPng {
  /// @throws FileError  it is neither, or as decode_jpeg() and decode_png()
  TANDEM_ONCE [[nodiscard]] static Pixels decode(std::span<std::uint8_t const> bytes,
                                                 std::string const& name,
                                                 std::int64_t limit = image_pixels_limit);
};

using ImageDecode = JpegAndPng;
#else
using ImageDecode = NoImages;
#endif

}  // namespace tandem

#if TANDEM_BODIES

#include <initializer_list>

namespace tandem {

TANDEM_ONCE Pixels NoImages::decode(std::span<std::uint8_t const>, std::string const& name) {
  throw FileError{name,
                  "this program was compiled without libjpeg and libpng and cannot read images; "
                  "define TANDEM_IMAGES=1 and link -ljpeg -lpng, or with CMake write "
                  "find_package(tandem COMPONENTS images) or set TANDEM_IMAGES to ON"};
}

#if defined(TANDEM_IMAGES) && TANDEM_IMAGES

TANDEM_ONCE Pixels JpegAndPng::decode(std::span<std::uint8_t const> bytes, std::string const& name,
                                      std::int64_t limit) {
  auto const begins = [&](std::initializer_list<std::uint8_t> magic) {
    std::size_t i = 0;
    for (std::uint8_t const byte : magic) {
      if (i >= bytes.size() || bytes[i++] != byte) {
        return false;
      }
    }
    return true;
  };
  if (begins({0xFF, 0xD8})) {
    return decode_jpeg(bytes, name, limit);
  }
  if (begins({0x89, 'P', 'N', 'G'})) {
    return decode_png(bytes, name, limit);
  }
  throw FileError{name, bytes.empty() ? "the file is empty, expected a JPEG or PNG image"
                                      : "this is no JPEG or PNG image, by its first bytes; "
                                        "convert it, or take it out of the folder"};
}

#endif

}  // namespace tandem

#endif
