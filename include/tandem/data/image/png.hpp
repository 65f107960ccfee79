// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// decode_png(): a PNG file in memory, by libpng; there only if the program defines TANDEM_IMAGES=1
/// and links -lpng.
///
/// Every kind: palettes become RGB, transparent colours alpha, 1, 2 and 4 bits 8, and 16 bits are
/// rounded to 8. Gamma and colour profiles are left alone, as Pillow does.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/image/pixels.hpp>

#if defined(TANDEM_IMAGES) && TANDEM_IMAGES

namespace tandem {

/// The image of a PNG file with content @p bytes, in 1 to 4 channels.
/// @throws FileError  it is truncated, damaged, or of more than @p limit pixels; @p name is for the
///                    message
TANDEM_ONCE [[nodiscard]] Pixels decode_png(std::span<std::uint8_t const> bytes,
                                            std::string const& name,
                                            std::int64_t limit = image_pixels_limit);

}  // namespace tandem

#if TANDEM_BODIES

#include <csetjmp>
#include <cstring>

#include <png.h>

namespace tandem::detail {

/// libpng's reader. Each verb is a frame that setjmp may return to: nothing that has a destructor
/// is in it, and no variable changes between setjmp and longjmp; it gives false where message()
/// says what is wrong.
class PngReader {
 public:
  explicit PngReader(std::span<std::uint8_t const> bytes) noexcept
      : png_{::png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &PngReader::leave,
                                      [](::png_structp, ::png_const_charp) {})},
        info_{png_ == nullptr ? nullptr : ::png_create_info_struct(png_)},
        left_{bytes} {}
  PngReader(PngReader const&) = delete;
  PngReader& operator=(PngReader const&) = delete;
  ~PngReader() { ::png_destroy_read_struct(&png_, &info_, nullptr); }

  [[nodiscard]] bool open() noexcept {
    if (info_ == nullptr) {
      std::strcpy(message_, "no memory, or png.h is not of the linked library");
      return false;
    }
    if (setjmp(place_) != 0) {
      return false;
    }
    ::png_set_user_limits(png_, 0x7FFFFFFF, 0x7FFFFFFF);
    ::png_set_read_fn(png_, this, &PngReader::give);
    ::png_read_info(png_, info_);
    return true;
  }

  /// From here on channels() says what the rows have.
  [[nodiscard]] bool start() noexcept {
    if (setjmp(place_) != 0) {
      return false;
    }
    ::png_set_expand(png_);
    ::png_set_scale_16(png_);
    passes_ = ::png_set_interlace_handling(png_);
    ::png_read_update_info(png_, info_);
    return true;
  }

  [[nodiscard]] bool read_row(std::uint8_t* row) noexcept {
    if (setjmp(place_) != 0) {
      return false;
    }
    ::png_read_row(png_, row, nullptr);
    return true;
  }

  /// Reads what follows the rows. A file without its last chunk still has all its pixels.
  [[nodiscard]] bool finish() noexcept {
    if (setjmp(place_) != 0) {
      return lacks_end_;
    }
    ::png_read_end(png_, nullptr);
    return true;
  }

  [[nodiscard]] std::int64_t height() const { return ::png_get_image_height(png_, info_); }
  [[nodiscard]] std::int64_t width() const { return ::png_get_image_width(png_, info_); }
  [[nodiscard]] int channels() const { return ::png_get_channels(png_, info_); }
  [[nodiscard]] std::size_t row_bytes() const { return ::png_get_rowbytes(png_, info_); }
  [[nodiscard]] int passes() const noexcept { return passes_; }
  [[nodiscard]] char const* message() const noexcept { return message_; }

 private:
  [[noreturn]] static void leave(::png_structp png, ::png_const_charp message) {
    auto& reader = *static_cast<PngReader*>(::png_get_error_ptr(png));
    std::strncpy(reader.message_, message, sizeof reader.message_ - 1);
    std::longjmp(reader.place_, 1);
  }

  static void give(::png_structp png, ::png_bytep to, std::size_t count) {
    auto& reader = *static_cast<PngReader*>(::png_get_io_ptr(png));
    if (count > reader.left_.size()) {
      constexpr std::uint32_t idat = 0x49444154;
      reader.lacks_end_ =
          (::png_get_io_state(png) & PNG_IO_CHUNK_HDR) != 0 || ::png_get_io_chunk_type(png) != idat;
      ::png_error(png, "the file is truncated");
    }
    std::memcpy(to, reader.left_.data(), count);
    reader.left_ = reader.left_.subspan(count);
  }

  std::jmp_buf place_;
  char message_[256] = {};
  ::png_structp png_;
  ::png_infop info_;
  std::span<std::uint8_t const> left_;
  int passes_ = 1;
  bool lacks_end_ = false;  // the file ends, but not within a chunk of pixels
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Pixels decode_png(std::span<std::uint8_t const> bytes, std::string const& name,
                              std::int64_t limit) {
  detail::PngReader reader{bytes};
  auto const check = [&](bool is_well) {
    if (!is_well) {
      throw FileError{name, std::string{"the PNG file cannot be read: "} + reader.message()};
    }
  };
  check(reader.open());
  detail::check_pixels(reader.height(), reader.width(), name, limit);
  // What deflate makes of a byte is at most 1032; a pixel has at least one bit.
  if (reader.height() * reader.width() / 8 / 1032 > static_cast<std::int64_t>(bytes.size())) {
    throw FileError{name, "the PNG file cannot be read: the file is truncated"};
  }
  check(reader.start());
  Pixels image{
      reader.channels(), static_cast<int>(reader.height()), static_cast<int>(reader.width()), {}};
  std::size_t const row = reader.row_bytes();
  image.bytes.resize(row * static_cast<std::size_t>(image.height));
  for (int pass = 0; pass < reader.passes(); ++pass) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(image.height); ++r) {
      check(reader.read_row(image.bytes.data() + r * row));
    }
  }
  check(reader.finish());
  return image;
}

}  // namespace tandem

#endif

#endif
