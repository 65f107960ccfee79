// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// decode_jpeg(): a JPEG file in memory, by libjpeg-turbo; there only if the program defines
/// TANDEM_IMAGES=1 and links -ljpeg.
///
/// Grey, YCbCr, RGB, CMYK and YCCK; baseline and progressive, 8 bits. What libjpeg would only warn
/// of, pixels that it had to make up, is an error here. The orientation that EXIF may ask for is
/// left alone.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/image/pixels.hpp>

#if defined(TANDEM_IMAGES) && TANDEM_IMAGES

namespace tandem {

/// The image of a JPEG file with content @p bytes, in 1 or 3 channels.
/// @throws FileError  it is truncated, damaged, of a kind that libjpeg does not read, or of more
///                    than @p limit pixels; @p name is for the message
TANDEM_ONCE [[nodiscard]] Pixels decode_jpeg(std::span<std::uint8_t const> bytes,
                                             std::string const& name,
                                             std::int64_t limit = image_pixels_limit);

}  // namespace tandem

#if TANDEM_BODIES

#include <csetjmp>
#include <cstdio>  // which jpeglib.h needs
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

namespace tandem::detail {

/// libjpeg's decompressor. Each verb is a frame that setjmp may return to: nothing that has a
/// destructor is in it, and no variable changes between setjmp and longjmp; it gives false where
/// message() says what is wrong.
class JpegReader {
 public:
  explicit JpegReader(std::span<std::uint8_t const> bytes) noexcept {
    std::memset(&info_, 0, sizeof info_);
    info_.err = ::jpeg_std_error(&errors_.base);
    errors_.base.error_exit = &JpegReader::leave;
    errors_.base.emit_message = &JpegReader::hear;
    info_.client_data = this;
    source_.next_input_byte = bytes.data();
    source_.bytes_in_buffer = bytes.size();
    source_.init_source = [](::j_decompress_ptr) {};
    source_.fill_input_buffer = [](::j_decompress_ptr info) -> ::boolean {
      return self(info).give_up("the file is truncated"), FALSE;
    };
    source_.skip_input_data = [](::j_decompress_ptr info, long count) {
      ::jpeg_source_mgr& source = *info->src;
      if (count > 0 && static_cast<std::size_t>(count) > source.bytes_in_buffer) {
        self(info).give_up("the file is truncated");
      } else if (count > 0) {
        source.next_input_byte += count;
        source.bytes_in_buffer -= static_cast<std::size_t>(count);
      }
    };
    source_.resync_to_restart = &::jpeg_resync_to_restart;
    source_.term_source = [](::j_decompress_ptr) {};
    progress_.progress_monitor = [](::j_common_ptr info) {
      if (reinterpret_cast<::j_decompress_ptr>(info)->input_scan_number > most_scans) {
        self(info).give_up("it has more than 100 scans, and takes for ever");
      }
    };
  }
  JpegReader(JpegReader const&) = delete;
  JpegReader& operator=(JpegReader const&) = delete;
  ~JpegReader() { ::jpeg_destroy_decompress(&info_); }

  [[nodiscard]] bool open() noexcept {
    if (setjmp(errors_.place) != 0) {
      return false;
    }
    ::jpeg_create_decompress(&info_);
    info_.client_data = this;  // the former has cleared all but the error manager
    info_.src = &source_;
    info_.progress = &progress_;
    static_cast<void>(::jpeg_read_header(&info_, TRUE));
    bool const four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    bool const grey = info_.jpeg_color_space == JCS_GRAYSCALE;
    info_.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    ::jpeg_calc_output_dimensions(&info_);
    return true;
  }

  [[nodiscard]] bool start() noexcept {
    if (setjmp(errors_.place) != 0) {
      return false;
    }
    static_cast<void>(::jpeg_start_decompress(&info_));
    return true;
  }

  [[nodiscard]] bool read_row(std::uint8_t* row) noexcept {
    if (setjmp(errors_.place) != 0) {
      return false;
    }
    JSAMPROW rows[1] = {row};
    static_cast<void>(::jpeg_read_scanlines(&info_, rows, 1));
    return true;
  }

  [[nodiscard]] ::jpeg_decompress_struct const& info() const noexcept { return info_; }
  [[nodiscard]] char const* message() const noexcept { return errors_.message; }

 private:
  static constexpr int most_scans = 100;

  struct Errors {
    ::jpeg_error_mgr base;
    std::jmp_buf place;
    char message[JMSG_LENGTH_MAX];
  };

  template <class Info>
  static JpegReader& self(Info* info) noexcept {
    return *static_cast<JpegReader*>(info->client_data);
  }

  [[noreturn]] void give_up(char const* what) noexcept {
    std::strncpy(errors_.message, what, sizeof errors_.message - 1);
    std::longjmp(errors_.place, 1);
  }

  [[noreturn]] static void leave(::j_common_ptr info) {
    JpegReader& reader = self(info);
    (*info->err->format_message)(info, reader.errors_.message);
    std::longjmp(reader.errors_.place, 1);
  }

  // Level -1 is a warning; those of these are of pixels that are not in the file.
  static void hear(::j_common_ptr info, int level) {
    int const code = info->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF ||
                      code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
                      code == JWRN_ARITH_BAD_CODE || code == JWRN_BOGUS_PROGRESSION)) {
      leave(info);
    }
  }

  ::jpeg_decompress_struct info_;
  ::jpeg_source_mgr source_{};
  ::jpeg_progress_mgr progress_{};
  Errors errors_{};
};

/// Rows of C, M, Y, K to RGB. As Pillow does, each is taken to be stored as 255 minus its value,
/// with Adobe's marker in the file and without.
TANDEM_ONCE Pixels rgb_of_cmyk(Pixels const& image) {
  Pixels out{3, image.height, image.width, {}};
  out.bytes.resize(image.bytes.size() / 4 * 3);
  std::uint8_t* write = out.bytes.data();
  for (std::size_t i = 0; i + 3 < image.bytes.size(); i += 4) {
    int const light = image.bytes[i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      int const product = (255 - image.bytes[i + c]) * light + 128;
      *write++ = static_cast<std::uint8_t>(light - ((product >> 8) + product) / 256);
    }
  }
  return out;
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE Pixels decode_jpeg(std::span<std::uint8_t const> bytes, std::string const& name,
                               std::int64_t limit) {
  detail::JpegReader reader{bytes};
  auto const check = [&](bool is_well) {
    if (!is_well) {
      throw FileError{name, std::string{"the JPEG file cannot be read: "} + reader.message()};
    }
  };
  check(reader.open());
  ::jpeg_decompress_struct const& info = reader.info();
  detail::check_pixels(info.output_height, info.output_width, name, limit);
  check(reader.start());
  Pixels image{info.output_components,
               static_cast<int>(info.output_height),
               static_cast<int>(info.output_width),
               {}};
  std::size_t const row = std::size_t{info.output_width} * static_cast<unsigned>(image.channels);
  image.bytes.resize(row * info.output_height);
  for (std::size_t r = 0; r < info.output_height; ++r) {
    check(reader.read_row(image.bytes.data() + r * row));
  }
  return image.channels == 4 ? detail::rgb_of_cmyk(image) : image;
}

}  // namespace tandem

#endif

#endif
