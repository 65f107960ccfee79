// SPDX-License-Identifier: Apache-2.0

#include "races.hpp"

#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include "state.hpp"

namespace cuda_emulator {
namespace {

Shadow& shadow() {
  static auto& instance = *new Shadow;
  return instance;
}

VectorClock& host() {
  static auto& instance = *new VectorClock;
  return instance;
}

// Names live as long as the program: there are few.
std::string const* kept(std::string const& name) {
  static auto& names = *new std::unordered_set<std::string>;
  return &*names.insert(name).first;
}

void show(int device, std::string const& name, Access const& access, std::string const& other,
          char const* streams) {
  char text[96];
  std::snprintf(text, sizeof text, " %s %zu bytes at %p, and ", access.writes ? "writes" : "reads",
                access.bytes, access.begin);
  fail(device, cudaErrorLaunchFailure,
       "a race: " + name + text + other + (access.writes ? " uses" : " writes") +
           " some of them; no event, wait or edge orders the two, " + streams);
}

}  // namespace

void VectorClock::join(std::uint32_t stream, std::uint64_t items) {
  auto const at = std::lower_bound(items_.begin(), items_.end(), stream,
                                   [](auto const& entry, auto s) { return entry.first < s; });
  if (at == items_.end() || at->first != stream) {
    items_.insert(at, {stream, items});
  } else {
    at->second = std::max(at->second, items);
  }
}

void VectorClock::join(VectorClock const& other) {
  for (auto const& [stream, items] : other.items_) {
    if (items > host().of(stream) || this == &host()) {  // what the host has seen all know
      join(stream, items);
    }
  }
}

std::uint64_t VectorClock::of(std::uint32_t stream) const {
  auto const at = std::lower_bound(items_.begin(), items_.end(), stream,
                                   [](auto const& entry, auto s) { return entry.first < s; });
  return at == items_.end() || at->first != stream ? 0 : at->second;
}

// A segment begins at `at`, if one covers it.
void Shadow::cut(std::uintptr_t at) {
  auto found = segments_.upper_bound(at);
  if (found == segments_.begin()) {
    return;
  }
  --found;
  if (found->first < at && at < found->second.end) {
    Segment right = found->second;
    found->second.end = at;
    segments_.emplace(at, std::move(right));
  }
}

template <class Before>
Epoch Shadow::note(Access const& access, Epoch const& now, Before const& before) {
  auto const begin = reinterpret_cast<std::uintptr_t>(access.begin);
  std::uintptr_t const end = begin + access.bytes;
  cut(begin);
  cut(end);
  Epoch conflict;
  auto at = segments_.lower_bound(begin);
  if (access.writes) {  // one segment in place of all
    while (at != segments_.end() && at->first < end) {
      Segment const& old = at->second;
      conflict = old.write.name != nullptr && !before(old.write) ? old.write : conflict;
      for (Epoch const& read : old.reads) {
        conflict = before(read) ? conflict : read;
      }
      at = segments_.erase(at);
    }
    segments_.emplace_hint(at, begin, Segment{end, now, {}});
    return conflict;
  }
  for (std::uintptr_t next = begin; next < end;) {
    if (at == segments_.end() || at->first > next) {
      std::uintptr_t const gap = at == segments_.end() ? end : std::min(end, at->first);
      at = segments_.emplace_hint(at, next, Segment{gap, {}, {}});
    }
    Segment& own = at->second;
    conflict = own.write.name != nullptr && !before(own.write) ? own.write : conflict;
    std::erase_if(own.reads, [&](Epoch const& read) { return before(read); });
    own.reads.push_back(now);
    next = own.end;
    ++at;
  }
  return conflict;
}

void Shadow::forget(void const* begin, std::size_t bytes) {
  auto const from = reinterpret_cast<std::uintptr_t>(begin);
  cut(from);
  cut(from + bytes);
  segments_.erase(segments_.lower_bound(from), segments_.lower_bound(from + bytes));
}

std::uint32_t next_stream_number() {
  static std::uint32_t last = 0;
  return ++last;
}

void host_waited(CUstream_st const& stream, std::uint64_t items) {
  host().join(stream.clock);
  host().join(stream.number, items);
}

void host_waited(VectorClock const& clock) { host().join(clock); }

VectorClock clock_at_end(CUstream_st const& stream) {
  VectorClock clock = stream.clock;
  clock.join(stream.number, stream.end());
  return clock;
}

void note_accesses(CUstream_st const& stream, std::vector<NamedAccess> const& accesses) {
  if (!emulator().races) {
    return;
  }
  auto const before = [&stream](Epoch const& other) {
    return other.stream == 0 || other.stream == stream.number ||
           other.position < stream.clock.of(other.stream) ||
           other.position < host().of(other.stream);
  };
  for (NamedAccess const& a : accesses) {
    if (a.access.bytes == 0) {
      continue;
    }
    Epoch const now{stream.number, stream.end(), a.name};
    Epoch const conflict = shadow().note(a.access, now, before);
    if (conflict.name != nullptr) {
      show(stream.device, *a.name, a.access, *conflict.name, "which are on two streams");
    }
  }
}

void note_accesses(CUstream_st const& stream, std::string const& name,
                   std::vector<Access> const& accesses) {
  note_accesses(stream, named(name, accesses));
}

void note_host_access(char const* name, int device, Access const& access) {
  if (!emulator().races || access.bytes == 0) {
    return;
  }
  static std::string const itself = "the host";
  Epoch const conflict = shadow().note(access, {0, 0, &itself}, [](Epoch const& other) {
    return other.stream == 0 || other.position < host().of(other.stream);
  });
  if (conflict.name != nullptr) {
    show(device, name, access, *conflict.name, "and the host goes on at once");
  }
}

std::vector<NamedAccess> accesses_of(std::vector<Node> const& nodes, int device) {
  std::vector<NamedAccess> all;
  Shadow inside;
  std::vector<std::vector<bool>> behind(nodes.size());  // [b][a]: node b comes after a
  for (std::uint32_t b = 0; b < nodes.size(); ++b) {
    behind[b].resize(nodes.size());
    for (std::size_t const a : nodes[b].after) {
      behind[b][a] = true;
      for (std::size_t c = 0; c < a; ++c) {
        behind[b][c] = behind[b][c] || behind[a][c];
      }
    }
    for (NamedAccess const& a : nodes[b].accesses) {
      all.push_back(a);
      if (!emulator().races || a.access.bytes == 0) {
        continue;
      }
      Epoch const conflict = inside.note(a.access, {b, 0, a.name}, [&](Epoch const& other) {
        return other.stream == b || behind[b][other.stream];
      });
      if (conflict.name != nullptr) {
        show(device, *a.name, a.access, *conflict.name, "which are nodes of one graph");
      }
    }
  }
  return all;
}

std::vector<NamedAccess> named(std::string const& name, std::vector<Access> const& accesses) {
  std::vector<NamedAccess> result;
  for (Access const& access : accesses) {
    result.push_back({access, kept(name)});
  }
  return result;
}

void forget_accesses(void const* begin, std::size_t bytes) { shadow().forget(begin, bytes); }

}  // namespace cuda_emulator
