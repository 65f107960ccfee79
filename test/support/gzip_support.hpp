// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// gzip(): the inverse of what is tested; there only in programs with zlib.

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

#include <zlib.h>

#include <stdexcept>

#include "data_files.hpp"

namespace support {

inline Bytes gzip(Bytes const& bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error{"deflateInit2 failed"};
  }
  Bytes packed(deflateBound(&stream, static_cast<uLong>(bytes.size())));
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  int const status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) {
    throw std::runtime_error{"deflate failed"};
  }
  return packed;
}

}  // namespace support

#endif
