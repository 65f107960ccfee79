// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MarkedMemory: what every byte of a rank's arenas was last written with, for MemoryCheck.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action.hpp>

namespace tandem::detail {

/// A buffer of one microbatch: what it is, of which node or edge, and of which reader's gradient.
struct MarkedBuffer {
  enum class Kind : std::uint8_t { value, saved, node_gradient, edge_gradient, outgoing };

  Kind kind = Kind::value;
  int index = 0;
  int reader = 0;
  std::int64_t microbatch = 0;

  friend bool operator==(MarkedBuffer const&, MarkedBuffer const&) = default;
};

/// Addresses [begin, end).
struct Stretch {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  [[nodiscard]] bool meets(Stretch const& other) const {
    return begin < other.end && other.begin < end;
  }
};

/// What a stretch has.
struct Content {
  Stretch where{};
  MarkedBuffer buffer{};
  Action writer{};
};

/// A message that may not have left.
struct MarkedMessage {
  Stretch from{};
  int node = 0;
  MarkedBuffer buffer{};
  Action sender{};
};

/// Cost: a look-up for each read and write; a write moves the stretches behind it.
template <class = void>
class MarkedMemory {
 public:
  TANDEM_COLD void write(Stretch where, MarkedBuffer const& buffer, Action writer) {
    auto const first = first_behind(where.begin);
    auto const last = std::partition_point(
        first, contents_.end(), [&](Content const& c) { return c.where.begin < where.end; });
    Content pieces[3];  // what is left before, the new one, what is left behind
    std::ptrdiff_t count = 0;
    if (first != last && first->where.begin < where.begin) {
      pieces[count] = *first;
      pieces[count++].where.end = where.begin;
    }
    pieces[count++] = {where, buffer, writer};
    if (first != last && (last - 1)->where.end > where.end) {
      pieces[count] = *(last - 1);
      pieces[count++].where.begin = where.end;
    }
    std::ptrdiff_t const over = std::min(count, last - first);
    auto const rest = std::copy(pieces, pieces + over, first);
    contents_.insert(contents_.erase(rest, last), pieces + over, pieces + count);  // one of both
  }

  /// Whether all of it has @p buffer; else @p other is what the first byte that has not has, or
  /// null.
  TANDEM_COLD bool has(Stretch where, MarkedBuffer const& buffer, Content const*& other) const {
    other = nullptr;
    auto at = first_behind(where.begin);
    for (std::uintptr_t next = where.begin; next < where.end; next = at++->where.end) {
      if (at == contents_.end() || at->where.begin > next) {
        return false;
      }
      if (at->buffer != buffer) {
        other = &*at;
        return false;
      }
    }
    return true;
  }

  void send(MarkedMessage const& message) { messages_.push_back(message); }

  /// Messages of @p node have left, up to a microbatch's.
  void sent(int node, std::int64_t last_microbatch) {
    std::erase_if(messages_, [&](MarkedMessage const& message) {
      return message.node == node && message.buffer.microbatch <= last_microbatch;
    });
  }

  /// Messages of @p node have left, of chunk @p chunk of each microbatch's @p chunks.
  void left(int node, int chunk, int chunks) {
    std::erase_if(messages_, [&](MarkedMessage const& message) {
      return message.node == node && message.buffer.microbatch % chunks == chunk;
    });
  }

  /// A message that is sent from there, or null.
  [[nodiscard]] TANDEM_COLD MarkedMessage const* leaving(Stretch where) const {
    for (MarkedMessage const& message : messages_) {
      if (message.from.meets(where)) {
        return &message;
      }
    }
    return nullptr;
  }

 private:
  // The first stretch that ends behind an address.
  [[nodiscard]] auto first_behind(std::uintptr_t address) const {
    return std::partition_point(contents_.begin(), contents_.end(), [&](Content const& content) {
      return content.where.end <= address;
    });
  }
  [[nodiscard]] auto first_behind(std::uintptr_t address) {
    return contents_.begin() + (std::as_const(*this).first_behind(address) - contents_.cbegin());
  }

  std::vector<Content> contents_;  // in ascending order, none of them meeting another
  std::vector<MarkedMessage> messages_;
};

}  // namespace tandem::detail
