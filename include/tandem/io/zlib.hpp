// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Zlib: inflates gzip buffers; there only if the program defines TANDEM_ZLIB=1 and links -lz.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

#include <zlib.h>

namespace tandem {

namespace detail {

/// A zlib stream that is freed on every path.
class InflateStream {
 public:
  explicit InflateStream(std::string const& name) {
    if (inflateInit2(&stream_, 16 + MAX_WBITS) != Z_OK) {  // 16: a gzip header, not a zlib one
      throw FileError{name, "zlib cannot start: no memory, or zlib.h is not of the linked library"};
    }
  }
  ~InflateStream() { static_cast<void>(inflateEnd(&stream_)); }
  InflateStream(InflateStream const&) = delete;
  InflateStream& operator=(InflateStream const&) = delete;

  z_stream* operator->() noexcept { return &stream_; }
  z_stream* get() noexcept { return &stream_; }

 private:
  z_stream stream_{};
};

}  // namespace detail

/// Inflates with zlib; a model of Inflater (gzip.hpp).
struct Zlib {
  /// The content of the gzip buffer @p packed, all its members one after the other, checked against
  /// their checksums. Memory never exceeds twice @p limit, whatever the buffer says.
  /// @throws FileError  @p packed is not gzip, truncated, damaged, or of more than @p limit bytes
  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] static std::vector<std::uint8_t> inflate(std::span<std::uint8_t const> packed,
                                                         std::string const& name,
                                                         std::size_t limit) {
    constexpr std::size_t largest_chunk = std::size_t{1} << 30;
    detail::InflateStream stream{name};
    std::vector<std::uint8_t> bytes;
    std::size_t read = 0;
    std::size_t used = 0;
    for (;;) {
      if (used == bytes.size()) {
        std::size_t const room =
            limit - used;  // and one byte more, which shows that it is too long
        std::size_t const more = used < 65536 ? 65536 : used;
        bytes.resize(used + (more <= room ? more : room + 1));
      }
      std::size_t const in =
          packed.size() - read < largest_chunk ? packed.size() - read : largest_chunk;
      std::size_t const out =
          bytes.size() - used < largest_chunk ? bytes.size() - used : largest_chunk;
      stream->next_in = const_cast<Bytef*>(packed.data() + read);  // zlib only reads it
      stream->avail_in = static_cast<uInt>(in);
      stream->next_out = bytes.data() + used;
      stream->avail_out = static_cast<uInt>(out);
      int const status = ::inflate(stream.get(), Z_NO_FLUSH);
      read += in - stream->avail_in;
      used += out - stream->avail_out;
      if (used > limit) {
        throw FileError{name, "the unpacked content is larger than the limit of " +
                                  std::to_string(limit) + " bytes for files of its kind"};
      }
      if (status == Z_STREAM_END) {
        if (read == packed.size()) {
          bytes.resize(used);
          return bytes;
        }
        static_cast<void>(inflateReset(stream.get()));  // another member follows
      } else if (status == Z_BUF_ERROR && read == packed.size()) {
        throw FileError{name, "the gzip file is truncated: it ends after " +
                                  std::to_string(packed.size()) + " bytes, within its content"};
      } else if (status != Z_OK) {
        throw FileError{name, std::string{"the gzip file is damaged: "} +
                                  (stream->msg != nullptr ? stream->msg : zError(status)) +
                                  " near byte " + std::to_string(read)};
      }
    }
  }
};

}  // namespace tandem

#endif
