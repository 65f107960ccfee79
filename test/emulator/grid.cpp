// SPDX-License-Identifier: Apache-2.0
// Runs a kernel: blocks one after another, the threads of a block as fibers, in a chosen order.
//
// A thread that meets no barrier returns its fiber, and the next thread starts on it, so that a
// kernel without barriers costs a call for each thread. One kernel runs at a time: the state is
// global.

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "emulator.hpp"
#include "fiber.hpp"
#include "kernel.hpp"
#include "order.hpp"
#include "shared_memory.hpp"
#include "stream_work.hpp"
#include "symbol.hpp"
#include "two_orders.hpp"

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim{};
dim3 gridDim{};

namespace cuda_emulator {
namespace {

struct Waiter {
  Fiber* fiber;
  int thread;
  bool (*ready)(void const*);
  void const* argument;
  char const* what;
};

// A barrier of the block or of one warp, and where the first of its threads is.
struct Barrier {
  int arrived = 0;
  std::uint64_t passed = 0;
  char const* file = nullptr;
  int line = 0;
};

struct State {
  Kernel const* kernel = nullptr;
  int device = 0;
  int threads = 0;
  std::vector<int> order;
  int started = 0;  // threads that have begun
  int done = 0;
  int awaited = 0;  // threads that have waited for the previous kernel
  int thread = -1;  // the one that runs
  Fiber* fiber = nullptr;
  std::uint64_t block = 0;
  std::vector<Waiter> waiters;
  std::vector<Waiter> batch;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  bool failed = false;
} state;

std::uint64_t blocks_started = 0;

constexpr std::size_t most_compared = std::size_t{4} << 20;  // of memory, after two runs
constexpr std::size_t most_shared_memory = 49152;            // of `__shared__` variables

void become(int thread) {
  state.thread = thread;
  auto const t = static_cast<unsigned>(thread);
  threadIdx.x = t % blockDim.x;
  threadIdx.y = t / blockDim.x % blockDim.y;
  threadIdx.z = t / blockDim.x / blockDim.y;
}

void run_threads(Fiber* fiber) {
  for (;;) {
    while (state.started < state.threads) {
      become(state.order[static_cast<std::size_t>(state.started++)]);
      state.kernel->body(state.kernel->arguments);
      ++state.done;
    }
    state.idle.push_back(fiber);
    fiber->leave();
  }
}

void enter(Fiber* fiber) {
  state.fiber = fiber;
  fiber->enter();
}

std::string place(char const* file, int line) {
  return std::string{file} + ":" + std::to_string(line);
}

std::string where() {
  return "kernel " + symbol_name(state.kernel->function) + " launched at " +
         place(state.kernel->file, state.kernel->line) + ", block (" + std::to_string(blockIdx.x) +
         ", " + std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + ")";
}

void no_progress() {
  std::string text = where() + ": " + std::to_string(state.done) + " of " +
                     std::to_string(state.threads) + " threads have returned, while thread " +
                     std::to_string(state.waiters.front().thread) + " waits in " +
                     state.waiters.front().what;
  if (state.all.arrived > 0) {
    text += ", and " + std::to_string(state.all.arrived) +
            " threads wait at the __syncthreads() at " + place(state.all.file, state.all.line);
  }
  fail(state.device, cudaErrorLaunchFailure, text);
  state.failed = true;
}

void resume_waiters(bool backward) {
  bool progress = false;
  state.batch.swap(state.waiters);
  state.waiters.clear();
  if (backward) {
    std::reverse(state.batch.begin(), state.batch.end());
  }
  for (Waiter const& waiter : state.batch) {
    if (!state.failed && waiter.ready(waiter.argument)) {
      progress = true;
      become(waiter.thread);
      enter(waiter.fiber);
    } else {
      state.waiters.push_back(waiter);
    }
  }
  if (!progress && !state.failed) {
    no_progress();
  }
}

// nvcc would not compile it.
void too_much_shared_memory(std::size_t bytes) {
  fail(state.device, cudaErrorInvalidConfiguration,
       where() + " wrote " + std::to_string(bytes) +
           " bytes of shared memory, of which there are " + std::to_string(most_shared_memory));
  state.failed = true;
}

bool run_block(bool backward) {
  state.started = 0;
  state.done = 0;
  state.awaited = 0;
  state.block = ++blocks_started;
  state.waiters.clear();
  state.all = {};
  state.warps.assign(static_cast<std::size_t>((state.threads + 31) / 32), {});
  while (state.started < state.threads && !state.failed) {
    if (state.idle.empty()) {
      state.fibers.push_back(std::make_unique<Fiber>(&run_threads));
      state.idle.push_back(state.fibers.back().get());
    }
    Fiber* const fiber = state.idle.back();
    state.idle.pop_back();
    enter(fiber);
  }
  while (state.done < state.threads && !state.failed) {
    backward = !backward;
    resume_waiters(backward);
  }
  if (state.kernel->overlaps && state.awaited != state.threads && !state.failed) {
    fail(state.device, cudaErrorLaunchFailure,
         where() + " may begin before the previous kernel has ended, and " +
             std::to_string(state.threads - state.awaited) + " of its " +
             std::to_string(state.threads) + " threads do not begin with await_previous()");
    state.failed = true;
  }
  return !state.failed;
}

// Arrives, and returns when all have; the last to come goes on at once.
void pass(Barrier& barrier, int threads, char const* file, int line, char const* what) {
  if (state.fiber == nullptr) {
    report(std::string{what} + " outside a kernel, at " + place(file, line));
    std::abort();
  }
  if (barrier.arrived == 0) {
    barrier.file = file;
    barrier.line = line;
  } else if (barrier.line != line ||
             (barrier.file != file && std::strcmp(barrier.file, file) != 0)) {
    kernel_fault([&] {
      return std::string{"threads wait at different barriers: "} + what + " at " +
             place(barrier.file, barrier.line) + " and at " + place(file, line);
    }());
  }
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.passed;
    return;
  }
  struct Target {
    Barrier const* barrier;
    std::uint64_t passed;
  } const target{&barrier, barrier.passed};
  wait_until(
      [](void const* argument) {
        auto const* t = static_cast<Target const*>(argument);
        return t->barrier->passed != t->passed;
      },
      &target, what);
}

}  // namespace

namespace {

bool run_once(Kernel const& kernel, dim3 grid, dim3 block, int device, Order const& order) {
  state.kernel = &kernel;
  state.device = device;
  state.failed = false;
  gridDim = grid;
  blockDim = block;
  state.threads = static_cast<int>(block.x * block.y * block.z);
  state.order.resize(static_cast<std::size_t>(state.threads));
  Permutation const threads = order.of(state.order.size());
  for (std::size_t i = 0; i < state.order.size(); ++i) {
    state.order[i] = static_cast<int>(threads(i));
  }
  std::uint64_t const blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  Permutation const turns = order.of(blocks);
  {
    SharedMemory shared;
    for (std::uint64_t i = 0; i < blocks && !state.failed; ++i) {
      std::uint64_t const b = turns(i);
      blockIdx.x = static_cast<unsigned>(b % grid.x);
      blockIdx.y = static_cast<unsigned>(b / grid.x % grid.y);
      blockIdx.z = static_cast<unsigned>(b / grid.x / grid.y);
      run_block((i % 2 == 1) != order.reversed);
      shared.after_block();
      if (shared.most_written() > most_shared_memory && !state.failed) {
        too_much_shared_memory(shared.most_written());
      }
    }
  }
  state.fiber = nullptr;
  state.block = 0;
  state.kernel = nullptr;
  if (state.failed) {  // their stacks hold threads that will never return
    state.fibers.clear();
    state.idle.clear();
  }
  return !state.failed;
}

// What threads do between two barriers has no order, nor have blocks: so what a kernel leaves must
// not depend on it. What it leaves is that of the first run.
bool run_twice(Kernel const& kernel, dim3 grid, dim3 block, int device, Order const& order) {
  Contents const before{device, most_compared};
  if (!run_once(kernel, grid, block, device, order) || !before.kept()) {
    return !state.failed;
  }
  Contents const after{device, most_compared};
  before.restore();
  bool const again = run_once(kernel, grid, block, device, order.reverse());
  std::string const difference = after.difference();
  after.restore();
  if (again && !difference.empty()) {
    fail(device, cudaErrorLaunchFailure,
         "kernel " + symbol_name(kernel.function) + " launched at " +
             place(kernel.file, kernel.line) + ": the order of its threads decides what is in " +
             difference + "; is a barrier missing?");
    return false;
  }
  return again;
}

}  // namespace

bool run_grid(Kernel const& kernel, dim3 grid, dim3 block, int device) {
  static auto& first = *new FirstLaunches;
  Order const order = next_order();
  return orders_compared() && first.take(kernel.function, grid, block)
             ? run_twice(kernel, grid, block, device, order)
             : run_once(kernel, grid, block, device, order);
}

void await_previous() {
  if (state.all.passed == 0) {  // before it reads what another thread has written
    ++state.awaited;
  }
}

void block_barrier(char const* file, int line) {
  pass(state.all, state.threads, file, line, "__syncthreads()");
}

void warp_barrier(char const* file, int line) {
  int const warp = state.thread / 32;
  int const threads = std::min(32, state.threads - warp * 32);
  pass(state.warps[static_cast<std::size_t>(warp)], threads, file, line, "__syncwarp()");
}

std::uint64_t block_number() { return state.block; }

std::uint64_t block_barriers_passed() { return state.all.passed; }

std::uint64_t warp_barriers_passed() {
  return (state.all.passed << 32) + state.warps[static_cast<std::size_t>(state.thread / 32)].passed;
}

int linear_thread() { return state.thread; }

int block_threads() { return state.threads; }

void wait_until(bool (*ready)(void const*), void const* argument, char const* what) {
  state.waiters.push_back({state.fiber, state.thread, ready, argument, what});
  state.fiber->leave();
}

void kernel_fault(std::string text) {
  {
    std::string const said = std::move(text);  // nothing that has to be freed stays on the stack
    if (state.fiber == nullptr) {
      report(said);
      std::abort();
    }
    fail(state.device, cudaErrorLaunchFailure,
         where() + ", thread " + std::to_string(state.thread) + ": " + said);
  }
  state.failed = true;
  state.fiber->leave();
  __builtin_trap();
}

}  // namespace cuda_emulator
