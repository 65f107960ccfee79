// SPDX-License-Identifier: Apache-2.0
// Streams as queues of work that runs when somebody waits for it; the functions of stream_work.hpp.

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "state.hpp"

namespace cuda_emulator {
namespace {

std::uint64_t environment_number(char const* name, std::uint64_t otherwise) {
  char const* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// What everybody waits for, when nothing has moved for a long time.
void describe_pending() {
  std::fprintf(stderr, "emulator: nothing has moved for 30 s; streams wait in:\n");
  auto const show = [](CUstream_st const& stream) {
    if (!stream.items.empty()) {
      std::fprintf(stderr, "  device %d, stream %p: %s, and %zu more\n", stream.device,
                   static_cast<void const*>(&stream), stream.items.front().name.c_str(),
                   stream.items.size() - 1);
    }
  };
  for (auto const& [handle, stream] : emulator().streams) {
    show(*stream);
  }
  for (auto const& stream : emulator().orphans) {
    show(*stream);
  }
}

cudaError_t capture_node(CUstream_st& stream, std::string name, Start start,
                         std::vector<Access> const& accesses) {
  Capture& capture = *stream.capture;
  if (capture.broken != cudaSuccess) {
    return cudaErrorStreamCaptureInvalidated;
  }
  auto own = named(name, accesses);
  capture.nodes.push_back(
      {std::move(name), std::move(start), std::move(stream.tails), std::move(own)});
  stream.tails = {capture.nodes.size() - 1};
  return cudaSuccess;
}

}  // namespace

Emulator& emulator() {
  static auto& instance = *[] {
    auto* const made = new Emulator;
    char const* const schedule = std::getenv("EMULATED_STREAMS");
    made->schedule =
        schedule != nullptr && std::string{schedule} == "eager" ? Schedule::eager : Schedule::lazy;
    made->seed = environment_number("EMULATED_SEED", 0);
    made->races = environment_number("EMULATED_RACES", 0) != 0;
    made->orders = environment_number("EMULATED_ORDERS", 0) != 0;
    made->peers = environment_number("EMULATED_PEERS", 1) != 0;
    made->trace = environment_number("EMULATED_TRACE", 0) != 0;
    return made;
  }();
  return instance;
}

void Mutex::lock() {
  if (owner_.load(std::memory_order_relaxed) != std::this_thread::get_id()) {
    mutex_.lock();
    owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  ++depth_;
}

void Mutex::unlock() {
  if (--depth_ == 0) {
    owner_.store({}, std::memory_order_relaxed);
    mutex_.unlock();
  }
}

int Mutex::release() {
  int const levels = std::exchange(depth_, 0);
  owner_.store({}, std::memory_order_relaxed);
  mutex_.unlock();
  return levels;
}

void Mutex::acquire(int levels) {
  lock();
  depth_ = levels;
}

Held lock() {
  static auto& mutex = *new Mutex;
  return Held{mutex};
}

Order next_order() {
  std::uint64_t const turn = emulator().launches++ + emulator().seed;
  return {static_cast<Permutation::Kind>(turn % 3), turn * 7919};
}

std::shared_ptr<CUstream_st> find_stream(cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    static auto& legacy = *new std::map<int, std::shared_ptr<CUstream_st>>;
    auto& found = legacy[current_device()];
    if (found == nullptr) {
      found = std::make_shared<CUstream_st>();
      found->device = current_device();
    }
    return found;
  }
  auto const found = emulator().streams.find(stream);
  return found == emulator().streams.end() ? nullptr : found->second;
}

bool advance(Ticket const& ticket) {
  CUstream_st& stream = *ticket.stream;
  while (stream.first <= ticket.position) {
    if (stream.running) {
      return false;
    }
    stream.running = true;
    bool const done = stream.items.front().attempt();
    stream.running = false;
    if (!done) {
      return false;
    }
    if (emulator().trace) {
      std::fprintf(stderr, "emulator: device %d, stream %p: %s\n", stream.device,
                   static_cast<void*>(&stream), stream.items.front().name.c_str());
    }
    stream.items.pop_front();
    ++stream.first;
    notify_changed();
  }
  return true;
}

void force(Held& held, Ticket const& ticket) {
  bool described = false;
  while (!advance(ticket)) {
    if (emulator().changed.wait_for(held, std::chrono::seconds{30}) == std::cv_status::timeout &&
        !std::exchange(described, true)) {
      describe_pending();
    }
  }
}

void force_all(Held& held, std::shared_ptr<CUstream_st> const& stream) {
  std::uint64_t const end = stream->end();
  if (!stream->items.empty()) {
    force(held, {stream, end - 1});
  }
  host_waited(*stream, end);
}

void force_device(Held& held, int device, bool legacy) {
  std::vector<std::shared_ptr<CUstream_st>> waited = emulator().orphans;
  for (auto const& [handle, stream] : emulator().streams) {
    waited.push_back(stream);
  }
  for (auto const& stream : waited) {
    bool const counts = !legacy || (stream->flags & cudaStreamNonBlocking) == 0;
    if (stream->device == device && counts && stream->capture == nullptr) {
      force_all(held, stream);
    }
  }
  std::erase_if(emulator().orphans, [](auto const& stream) { return stream->items.empty(); });
}

Ticket append(std::shared_ptr<CUstream_st> const& stream, std::string name, Start const& start) {
  Ticket const ticket{stream, stream->end()};
  stream->items.push_back({std::move(name), {}});
  stream->items.back().attempt = start(ticket);
  notify_changed();
  if (emulator().schedule == Schedule::eager) {
    advance(ticket);
  }
  return ticket;
}

cudaError_t enqueue_retried(cudaStream_t handle, std::string name, Start start,
                            std::vector<Access> const& accesses) {
  auto held = lock();
  auto const stream = find_stream(handle);
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (auto const failed = emulator().failures.find(stream->device);
      failed != emulator().failures.end()) {
    return failed->second;
  }
  if (stream->capture != nullptr) {
    return capture_node(*stream, std::move(name), std::move(start), accesses);
  }
  if (emulator().streams.count(handle) == 0) {  // the legacy default stream
    if (cudaError_t const status = check_no_capture(); status != cudaSuccess) {
      return cudaErrorStreamCaptureImplicit;
    }
    force_device(held, stream->device, true);
    note_accesses(*stream, name, accesses);
    force(held, append(stream, std::move(name), start));
    host_waited(*stream, stream->end());
    return cudaSuccess;
  }
  note_accesses(*stream, name, accesses);
  append(stream, std::move(name), start);
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work,
                    std::vector<Access> const& accesses) {
  auto start = [work = std::move(work)](Ticket const&) -> Attempt {
    return [work] {
      work();
      return true;
    };
  };
  return enqueue_retried(stream, std::move(name), std::move(start), accesses);
}

void notify_changed() { emulator().changed.notify_all(); }

int device_of(cudaStream_t stream) {
  auto const held = lock();
  auto const found = find_stream(stream);
  return found == nullptr ? -1 : found->device;
}

bool is_capturing(cudaStream_t stream) {
  auto const held = lock();
  auto const found = find_stream(stream);
  return found != nullptr && found->capture != nullptr;
}

}  // namespace cuda_emulator
