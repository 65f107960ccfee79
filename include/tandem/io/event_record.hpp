// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The bytes of TensorBoard's event files: Event messages of scalars, each a TFRecord with sums.

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tandem/core/config.hpp>
#include <tandem/core/crc32c.hpp>

namespace tandem::detail {

/// Appends the lowest @p size bytes of @p word, the lowest first.
inline void add_bytes(std::string& to, std::uint64_t word, int size) {
  for (int i = 0; i < size; ++i) {
    to += static_cast<char>(word >> (8 * i) & 0xFFU);
  }
}

/// A protocol buffer as it is written; fields are to come by ascending number, those that are 0 not
/// at all.
/// Source: protobuf.dev/programming-guides/encoding
class ProtocolBuffer {
 public:
  ProtocolBuffer& integer(int field, std::int64_t value) {
    return value == 0 ? *this : key(field, 0).varint(static_cast<std::uint64_t>(value));
  }
  ProtocolBuffer& number(int field, double value) {
    add_bytes(key(field, 1).bytes_, std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtocolBuffer& number(int field, float value) {
    add_bytes(key(field, 5).bytes_, std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  /// A text, or a message within this one.
  ProtocolBuffer& text(int field, std::string_view value) {
    key(field, 2).varint(value.size()).bytes_ += value;
    return *this;
  }
  [[nodiscard]] std::string const& bytes() const { return bytes_; }

 private:
  ProtocolBuffer& key(int field, int type) {
    return varint(static_cast<std::uint64_t>(field * 8 + type));
  }
  TANDEM_ONCE ProtocolBuffer& varint(std::uint64_t value);

  std::string bytes_{};
};

/// The record that a file begins with. @param time  seconds since 1970
TANDEM_ONCE [[nodiscard]] std::string first_event(double time);

/// Adds a scalar, in float, to those of a step.
TANDEM_ONCE void add_scalar(ProtocolBuffer& scalars, std::string_view name, double value);

/// The record of a step's scalars.
TANDEM_ONCE [[nodiscard]] std::string scalar_event(double time, std::int64_t step,
                                                   ProtocolBuffer const& scalars);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

/// Length, sum of the length, @p data, sum of the data. Sums are turned and moved, so that a record
/// that holds records has others.
TANDEM_ONCE [[nodiscard]] std::string tf_record(std::string_view data) {
  auto const masked = [](std::string_view bytes) {
    return std::rotr(crc32c(std::as_bytes(std::span{bytes})), 15) + 0xA282EAD8U;
  };
  std::string record;
  add_bytes(record, data.size(), 8);
  add_bytes(record, masked(record), 4);
  record += data;
  add_bytes(record, masked(data), 4);
  return record;
}

TANDEM_ONCE std::string first_event(double time) {
  return tf_record(ProtocolBuffer{}.number(1, time).text(3, "brain.Event:2").bytes());
}

TANDEM_ONCE void add_scalar(ProtocolBuffer& scalars, std::string_view name, double value) {
  scalars.text(1, ProtocolBuffer{}.text(1, name).number(2, static_cast<float>(value)).bytes());
}

TANDEM_ONCE std::string scalar_event(double time, std::int64_t step,
                                     ProtocolBuffer const& scalars) {
  return tf_record(
      ProtocolBuffer{}.number(1, time).integer(2, step).text(5, scalars.bytes()).bytes());
}

TANDEM_ONCE ProtocolBuffer& ProtocolBuffer::varint(std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7) {
    bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
  }
  bytes_ += static_cast<char>(value);
  return *this;
}

}  // namespace tandem::detail

#endif
