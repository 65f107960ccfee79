// SPDX-License-Identifier: Apache-2.0

#include "memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "control.hpp"
#include "races.hpp"
#include "stream_work.hpp"

namespace cuda_emulator {
namespace {

constexpr std::size_t alignment = 256;  // of cudaMalloc; addresses are no multiples of 512
constexpr std::size_t margin = 256;
constexpr std::size_t quarantine_limit = std::size_t{128} << 20;
constexpr unsigned char poison_byte = 0xFF;
constexpr unsigned char margin_byte = 0xA5;

struct Memory {
  std::map<std::byte const*, Allocation> live;  // by begin
  std::deque<Allocation> freed;                 // quarantined, the oldest first
  std::size_t freed_bytes = 0;
  std::size_t limit = std::size_t{4} << 30;
};

Memory& memory() {
  static auto& instance = *[] {
    auto* const made = new Memory;
    if (char const* const text = std::getenv("EMULATED_MEMORY")) {
      made->limit = std::strtoull(text, nullptr, 10);
    }
    // What still lies in quarantine at the end is checked for stale writes as well.
    std::atexit([] {
      for (auto const& [begin, allocation] : memory().live) {
        static_cast<void>(begin);
        if (allocation.kind != Kind::registered &&
            std::count(allocation.end(), allocation.end() + margin, std::byte{margin_byte}) !=
                static_cast<std::ptrdiff_t>(margin)) {
          std::fprintf(stderr,
                       "emulator: a write past the end of %zu bytes that never were freed\n",
                       allocation.bytes);
        }
      }
    });
    return made;
  }();
  return instance;
}

bool all(std::byte const* begin, std::byte const* end, unsigned char value) {
  return std::all_of(begin, end, [value](std::byte b) { return b == std::byte{value}; });
}

std::string text_of(Allocation const& a) {
  char text[96];
  std::snprintf(text, sizeof text, "%zu bytes of %s memory at %p", a.bytes,
                a.kind == Kind::device ? "device" : "pinned", static_cast<void*>(a.begin));
  return text;
}

void check_margins(Allocation const& a) {
  if (!all(a.begin - margin, a.begin, margin_byte)) {
    report("a write before the begin of " + text_of(a));
  }
  if (!all(a.end(), a.end() + margin, margin_byte)) {
    report("a write past the end of " + text_of(a));
  }
}

// Gives the oldest freed memory back until @p bytes more fit in.
void drain_quarantine(std::size_t bytes) {
  Memory& m = memory();
  while (!m.freed.empty() && m.freed_bytes + bytes > quarantine_limit) {
    Allocation const& a = m.freed.front();
    if (!all(a.begin, a.end(), poison_byte)) {
      report("a write to " + text_of(a) + " after it was freed");
    }
    m.freed_bytes -= a.bytes;
    std::free(a.block);
    m.freed.pop_front();
  }
}

}  // namespace

void poison(void* pointer, std::size_t bytes) {
  if (bytes > 0) {
    std::memset(pointer, poison_byte, bytes);
  }
}

Allocation* allocate(Kind kind, std::size_t bytes, int device, void const* pool) {
  Memory& m = memory();
  if (kind == Kind::device && (bytes > m.limit || used_bytes(device) + bytes > m.limit)) {
    return nullptr;
  }
  std::size_t const tail = (2 * alignment - bytes % (2 * alignment)) % (2 * alignment);
  auto* const block = static_cast<std::byte*>(
      std::aligned_alloc(2 * alignment, 2 * alignment + bytes + tail + 2 * margin));
  if (block == nullptr) {
    return nullptr;
  }
  Allocation a;
  a.block = block;
  a.begin = block + margin;
  a.bytes = bytes;
  a.kind = kind;
  a.device = device;
  a.pool = pool;
  std::memset(block, margin_byte, margin);
  std::memset(a.end(), margin_byte, margin);
  poison(a.begin, bytes);
  return &(m.live[a.begin] = a);
}

Allocation* register_host(void* begin, std::size_t bytes, int device) {
  auto* const start = static_cast<std::byte*>(begin);
  for (auto const& [at, a] : memory().live) {
    if (at < start + bytes && start < a.end()) {
      return nullptr;
    }
  }
  Allocation a;
  a.begin = start;
  a.bytes = bytes;
  a.kind = Kind::registered;
  a.device = device;
  return &(memory().live[a.begin] = a);
}

Allocation* find_allocation(void const* pointer, std::size_t bytes) {
  auto const* const at = static_cast<std::byte const*>(pointer);
  auto found = memory().live.upper_bound(at);
  if (found == memory().live.begin()) {
    return nullptr;
  }
  Allocation& a = (--found)->second;
  return at + bytes <= a.end() ? &a : nullptr;
}

void hold(void const* pointer, char const* who) {
  if (Allocation* const a = find_allocation(pointer, 0); a != nullptr) {
    ++a->holds;
    a->holder = who;
  }
}

void let_go(void const* pointer) {
  if (Allocation* const a = find_allocation(pointer, 0); a != nullptr && a->holds > 0) {
    --a->holds;
  }
}

bool release(void const* pointer) {
  Memory& m = memory();
  auto const found = m.live.find(static_cast<std::byte const*>(pointer));
  if (found == m.live.end()) {
    return false;
  }
  Allocation const a = found->second;
  if (a.holds > 0) {
    report("a free of " + text_of(a) + ", which " + a.holder + " may still use");
  }
  m.live.erase(found);
  forget_accesses(a.begin, a.bytes);
  if (a.kind != Kind::registered) {
    check_margins(a);
    poison(a.begin, a.bytes);
    drain_quarantine(a.bytes);
    m.freed.push_back(a);
    m.freed_bytes += a.bytes;
  }
  return true;
}

std::vector<Allocation> reachable_memory(int device) {
  std::vector<Allocation> found;
  for (auto const& [begin, a] : memory().live) {
    if (a.kind == Kind::device && reaches(device, a)) {  // the host may write its own meanwhile
      found.push_back(a);
    }
  }
  return found;
}

std::size_t used_bytes(int device) {
  std::size_t sum = 0;
  for (auto const& [begin, a] : memory().live) {
    sum += a.kind == Kind::device && a.device == device ? a.bytes : 0;
  }
  return sum;
}

std::size_t used_bytes_of_pool(void const* pool) {
  std::size_t sum = 0;
  for (auto const& [begin, a] : memory().live) {
    sum += a.kind == Kind::device && a.pool == pool ? a.bytes : 0;
  }
  return sum;
}

std::size_t memory_limit() { return memory().limit; }

void set_memory_limit(std::size_t bytes) {
  auto const held = lock();
  memory().limit = bytes;
}

std::size_t live_allocations() {
  auto const held = lock();
  return memory().live.size();
}

char const* describe_foreign(void const* pointer) {
  auto const* const at = static_cast<std::byte const*>(pointer);
  for (Allocation const& a : memory().freed) {
    if (at >= a.begin && at < a.end()) {
      return "which was freed";
    }
  }
  return "which is neither device memory nor pinned memory";
}

bool device_can_access(void const* pointer, std::size_t bytes, int device) {
  auto const held = lock();
  if (bytes == 0) {
    return true;
  }
  Allocation const* const a = find_allocation(pointer, bytes);
  return a != nullptr && !a->leaving && reaches(device, *a);
}

bool is_device_memory(void const* pointer, std::size_t bytes, int device) {
  auto const held = lock();
  Allocation const* const a = find_allocation(pointer, bytes);
  return a != nullptr && !a->leaving && a->kind == Kind::device &&
         (device == -1 || a->device == device);
}

}  // namespace cuda_emulator
