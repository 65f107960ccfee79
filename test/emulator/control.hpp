// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What tests may set and ask of the emulator. Each setting has an environment variable too.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cuda_emulator {

/// When work on streams runs. The environment says EMULATED_STREAMS=eager or lazy.
enum class Schedule : unsigned char {
  lazy,  ///< as late as possible: when something waits for it
  eager  ///< as early as possible: when it is enqueued, unless it must wait
};

void set_schedule(Schedule schedule);

/// Chooses the order of threads, blocks and graph nodes from now on (EMULATED_SEED). Launches under
/// one seed alternate between forward, backward and shuffled orders.
void set_seed(std::uint64_t seed);

/// Bytes that each device has (EMULATED_MEMORY, default 4 GiB).
void set_memory_limit(std::size_t bytes);

/// Whether races between pieces of work are looked for (EMULATED_RACES, default 0).
void set_races_shown(bool shown);

/// Whether the first launches of each kernel run twice, in opposite orders of threads, to compare
/// what they leave (EMULATED_ORDERS, default 0).
void set_orders_compared(bool compared);

/// Whether devices may reach each other's memory (EMULATED_PEERS, default 1). What was allowed
/// before stays.
void set_peer_access(bool possible);

/// Whether kernels and the libraries' functions do their work. Where not, all is queued, checked
/// and captured as ever, and copies are made: for tests of what a large step consists of.
void set_computing(bool computes);

/// The text of the last report of misuse, empty if there was none since clear_errors().
[[nodiscard]] std::string last_report();

/// Forgets the last report and the failures of devices, so that a test can go on after a provoked
/// one.
void clear_errors();

/// Silences reports on stderr, for tests that provoke them.
void set_quiet(bool quiet);

/// Allocations that have not been freed: device and pinned memory.
[[nodiscard]] std::size_t live_allocations();

/// Streams, events and graphs that have not been destroyed.
[[nodiscard]] std::size_t live_handles();

/// Kernels that have run so far, replays included.
[[nodiscard]] std::uint64_t kernels_run();

struct GraphWork {
  std::string name;         ///< of a kernel, with its template arguments; else "copy" and the like
  std::int64_t bytes = -1;  ///< that a product or a convolution reads and writes; else -1
};

/// What the newest graph of a device consists of, in the order in which it was captured.
[[nodiscard]] std::vector<GraphWork> graph_work(int device = 0);

/// Items on all streams that have not run yet.
[[nodiscard]] std::size_t pending_work();

}  // namespace cuda_emulator
