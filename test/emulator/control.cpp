// SPDX-License-Identifier: Apache-2.0
// Settings, reports and failures.

#include "control.hpp"

#include <cstdio>

#include "state.hpp"
#include "symbol.hpp"

namespace cuda_emulator {

void set_schedule(Schedule schedule) {
  auto const held = lock();
  emulator().schedule = schedule;
}

void set_seed(std::uint64_t seed) {
  auto const held = lock();
  emulator().seed = seed;
  emulator().launches = 0;
}

void set_races_shown(bool shown) {
  auto const held = lock();
  emulator().races = shown;
}

void set_orders_compared(bool compared) {
  auto const held = lock();
  emulator().orders = compared;
}

bool orders_compared() { return emulator().orders; }

void set_peer_access(bool possible) {
  auto const held = lock();
  emulator().peers = possible;
}

void set_computing(bool computes) {
  auto const held = lock();
  emulator().computes = computes;
}

std::string last_report() {
  auto const held = lock();
  return emulator().last_report;
}

void clear_errors() {
  auto const held = lock();
  emulator().last_report.clear();
  emulator().failures.clear();
}

void set_quiet(bool quiet) {
  auto const held = lock();
  emulator().quiet = quiet;
}

std::size_t live_handles() {
  auto const held = lock();
  Emulator const& e = emulator();
  return e.streams.size() + e.events.size() + e.graphs.size() + e.execs.size();
}

std::uint64_t kernels_run() {
  auto const held = lock();
  return emulator().kernels;
}

std::vector<GraphWork> graph_work(int device) {
  auto const held = lock();
  std::vector<GraphWork> all;
  for (Node const& node : emulator().newest_graph[device]) {
    all.push_back({node.kernel != nullptr ? symbol_name(node.kernel) : node.name, node.bytes});
  }
  return all;
}

std::size_t pending_work() {
  auto const held = lock();
  std::size_t count = 0;
  for (auto const& [handle, stream] : emulator().streams) {
    count += stream->items.size();
  }
  for (auto const& stream : emulator().orphans) {
    count += stream->items.size();
  }
  return count;
}

void report(std::string const& text) {
  auto const held = lock();
  emulator().last_report = text;
  if (!emulator().quiet) {
    std::fprintf(stderr, "emulator: %s\n", text.c_str());
  }
}

void fail(int device, cudaError_t error, std::string const& text) {
  auto const held = lock();
  report(text);
  emulator().failures.emplace(device, error);
  notify_changed();
}

}  // namespace cuda_emulator
