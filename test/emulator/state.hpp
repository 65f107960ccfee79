// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Streams, events and captures behind their handles. Internal; all under lock().

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control.hpp"
#include "order.hpp"
#include "races.hpp"
#include "stream_work.hpp"

namespace cuda_emulator {

using Clock = std::chrono::steady_clock;

/// A point in a stream that one cudaEventRecord made; events and waiting streams share it.
struct Mark {
  Ticket ticket;
  bool reached = false;
  Clock::time_point time;
  VectorClock order;  ///< what comes before it, itself included
};

/// One recorded operation, and which earlier ones it must follow.
struct Node {
  std::string name;
  Start start;
  std::vector<std::size_t> after;
  std::vector<NamedAccess> accesses{};
  void const* kernel = nullptr;  ///< where it is one of the library's
  std::int64_t bytes = -1;       ///< of its operands; -1: not known
};

/// What a capture records, from cudaStreamBeginCapture to cudaStreamEndCapture.
struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  std::vector<CUstream_st*> streams;
  std::vector<Node> nodes;
  cudaError_t broken = cudaSuccess;  ///< the misuse that has invalidated it
  bool ended = false;
};

/// One enqueued operation.
struct Item {
  std::string name;
  Attempt attempt;
};

}  // namespace cuda_emulator

struct CUstream_st {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::deque<cuda_emulator::Item> items;
  std::uint64_t first = 0;  ///< position of items.front()
  std::uint32_t number = cuda_emulator::next_stream_number();
  cuda_emulator::VectorClock clock;  ///< what the next item comes after, but for the stream's own
  bool running = false;
  std::shared_ptr<cuda_emulator::Capture> capture;
  std::vector<std::size_t> tails;  ///< in a capture: the nodes that the next one follows

  [[nodiscard]] std::uint64_t end() const { return first + items.size(); }
};

struct CUevent_st {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<cuda_emulator::Mark> mark;        ///< recorded outside a capture
  std::shared_ptr<cuda_emulator::Capture> capture;  ///< recorded inside this one, after `tails`
  std::vector<std::size_t> tails;
};

struct CUgraph_st {
  std::vector<cuda_emulator::Node> nodes;
  std::vector<cuda_emulator::NamedAccess> accesses;  ///< of all
};

struct CUgraphExec_st {
  std::shared_ptr<std::vector<cuda_emulator::Node> const> nodes;
  std::vector<cuda_emulator::NamedAccess> accesses;
  cuda_emulator::Ticket last;             ///< of its last launch
  cuda_emulator::VectorClock last_order;  ///< what comes before the next launch
};

namespace cuda_emulator {

struct Emulator {
  std::condition_variable_any changed;
  std::map<CUstream_st*, std::shared_ptr<CUstream_st>> streams;
  std::vector<std::shared_ptr<CUstream_st>> orphans;  ///< destroyed with work to do
  std::map<CUevent_st*, std::unique_ptr<CUevent_st>> events;
  std::map<CUgraph_st*, std::unique_ptr<CUgraph_st>> graphs;
  std::map<CUgraphExec_st*, std::unique_ptr<CUgraphExec_st>> execs;
  std::vector<std::shared_ptr<Capture>> captures;
  Schedule schedule = Schedule::lazy;
  std::uint64_t seed = 0;
  std::uint64_t launches = 0;
  std::uint64_t kernels = 0;
  bool orders = false;  ///< of threads are compared
  bool races = false;   ///< are looked for
  bool peers = true;
  std::set<std::pair<int, int>> peer_access;  ///< (device, whose plain memory its kernels may use)
  /// Of each device the last one instantiated, without what runs, which owns things.
  std::map<int, std::vector<Node>> newest_graph;
  bool trace = false;
  bool quiet = false;
  bool computes = true;
  std::string last_report;
  std::map<int, cudaError_t> failures;  ///< device -> the error that it gives from now on
};

/// The one instance. Never destroyed, since static destructors may still free memory.
Emulator& emulator();

/// Number of emulated devices (EMULATED_GPUS, default 4).
int device_count();

/// Keeps @p status as the thread's last error, as every function of the runtime does, and returns
/// it.
cudaError_t result(cudaError_t status);

/// Whether kernels of @p device may be allowed to use memory of @p other.
bool is_peer(int device, int other);

/// The failure of the calling thread's device, if it has one.
cudaError_t device_failure();

/// The stream behind a handle: also the legacy and the per-thread default streams; null if none.
std::shared_ptr<CUstream_st> find_stream(cudaStream_t stream);

/// Blocks until the item is done.
void force(Held& held, Ticket const& ticket);

/// Blocks until all of the stream's items are done.
void force_all(Held& held, std::shared_ptr<CUstream_st> const& stream);

/// Blocks until all streams of @p device are empty; only the blocking ones if @p legacy.
void force_device(Held& held, int device, bool legacy = false);

/// Appends an item outside of any capture.
Ticket append(std::shared_ptr<CUstream_st> const& stream, std::string name, Start const& start);

/// Invalidates @p capture because of @p error, and returns that error.
cudaError_t break_capture(Capture& capture, cudaError_t error);

/// cudaErrorStreamCaptureUnsupported, and every such capture invalidated, if the calling thread may
/// not wait or allocate now: it has begun a capture that has not ended, or another thread has, in
/// the global mode.
cudaError_t check_no_capture();

}  // namespace cuda_emulator
