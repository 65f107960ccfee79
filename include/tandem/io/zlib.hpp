// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Zlib: inflates gzip and zlib buffers; there only if the program defines TANDEM_ZLIB=1 and links
/// -lz.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

namespace tandem {

/// Inflates with zlib; a model of Inflater and of BlockInflater (gzip.hpp).
struct Zlib {
  /// The content of the gzip buffer @p packed, all its members one after the other, checked against
  /// their checksums; zeros after the last member are left out, as gzip does. Memory never exceeds
  /// twice @p limit, whatever the buffer says.
  /// @throws FileError  @p packed is not gzip, truncated, damaged, or of more than @p limit bytes
  TANDEM_ONCE [[nodiscard]] static std::vector<std::uint8_t> inflate(
      std::span<std::uint8_t const> packed, std::string const& name, std::size_t limit);

  /// The content of the zlib stream (RFC 1950) at the front of @p packed, which is byte @p first of
  /// file @p name; otherwise as inflate().
  /// @throws FileError  as inflate()
  TANDEM_ONCE [[nodiscard]] static std::vector<std::uint8_t> inflate_block(
      std::span<std::uint8_t const> packed, std::string const& name, std::size_t first,
      std::size_t limit);

 private:
  struct Source {
    std::string const& name;
    std::string what;  // for messages, as what follows
    std::string content;
    std::string limit;
    std::size_t first;
    bool gzip;
  };

  TANDEM_ONCE static std::vector<std::uint8_t> inflate_all(std::span<std::uint8_t const> packed,
                                                           Source const& source, std::size_t limit);
};

}  // namespace tandem

#if TANDEM_BODIES

#include <zlib.h>

namespace tandem {

namespace detail {

/// A zlib stream that is freed on every path.
class InflateStream {
 public:
  explicit InflateStream(std::string const& name, int window_bits) {
    if (inflateInit2(&stream_, window_bits) != Z_OK) {
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

TANDEM_ONCE std::vector<std::uint8_t> Zlib::inflate(std::span<std::uint8_t const> packed,
                                                    std::string const& name, std::size_t limit) {
  return inflate_all(
      packed, {name, "the gzip file", "the unpacked content", " for files of its kind", 0, true},
      limit);
}

TANDEM_ONCE std::vector<std::uint8_t> Zlib::inflate_block(std::span<std::uint8_t const> packed,
                                                          std::string const& name,
                                                          std::size_t first, std::size_t limit) {
  std::string const block = "the block at byte " + std::to_string(first);
  return inflate_all(
      packed, {name, block, "the unpacked content of " + block, " that are expected", first, false},
      limit);
}

TANDEM_ONCE std::vector<std::uint8_t> Zlib::inflate_all(std::span<std::uint8_t const> packed,
                                                        Source const& source, std::size_t limit) {
  constexpr std::size_t largest_chunk = std::size_t{1} << 30;
  detail::InflateStream stream{source.name, source.gzip ? 16 + MAX_WBITS : MAX_WBITS};
  std::vector<std::uint8_t> bytes;
  std::size_t read = 0;
  std::size_t used = 0;
  for (;;) {
    if (used == bytes.size()) {
      std::size_t const room = limit - used;  // and one byte more, which shows that it is too long
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
      throw FileError{source.name, source.content + " is larger than the limit of " +
                                       std::to_string(limit) + " bytes" + source.limit};
    }
    if (status == Z_STREAM_END) {
      auto const rest = packed.subspan(read);
      if (!source.gzip ||
          std::all_of(rest.begin(), rest.end(), [](std::uint8_t byte) { return byte == 0; })) {
        bytes.resize(used);
        return bytes;
      }
      static_cast<void>(inflateReset(stream.get()));  // another member follows
    } else if (status == Z_BUF_ERROR && read == packed.size()) {
      throw FileError{source.name, source.what + " is truncated: it ends after " +
                                       std::to_string(packed.size()) +
                                       " bytes, within its content"};
    } else if (status != Z_OK) {
      throw FileError{source.name, source.what + " is damaged: " +
                                       (stream->msg != nullptr ? stream->msg : zError(status)) +
                                       " near byte " + std::to_string(source.first + read)};
    }
  }
}

}  // namespace tandem

#endif

#endif
