// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Protobuf: a message in the wire format of Protocol Buffers, as much of it as ONNX needs.
/// Source: protobuf.dev/programming-guides/encoding

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/core/config.hpp>

namespace tandem::detail {

/// Fields one behind the other. A message within is a field of its bytes.
class Protobuf {
 public:
  Protobuf& integer(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  TANDEM_ONCE Protobuf& number(int field, float value);
  TANDEM_ONCE Protobuf& text(int field, std::string_view value);
  Protobuf& message(int field, Protobuf const& value) { return text(field, value.bytes_); }

  [[nodiscard]] std::string const& bytes() const& { return bytes_; }
  [[nodiscard]] std::string bytes() && { return std::move(bytes_); }

 private:
  void key(int field, unsigned type) { varint(static_cast<unsigned>(field) << 3U | type); }
  TANDEM_ONCE void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Protobuf& Protobuf::number(int field, float value) {
  key(field, 5);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);  // little-endian
  bytes_.append(bytes, sizeof bytes);
  return *this;
}

TANDEM_ONCE Protobuf& Protobuf::text(int field, std::string_view value) {
  key(field, 2);
  varint(value.size());
  bytes_.append(value);
  return *this;
}

TANDEM_ONCE void Protobuf::varint(std::uint64_t value) {
  for (; value >= 128; value >>= 7U) {
    bytes_ += static_cast<char>(value | 128U);
  }
  bytes_ += static_cast<char>(value);
}

}  // namespace tandem::detail

#endif
