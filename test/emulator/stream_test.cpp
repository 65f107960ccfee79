// SPDX-License-Identifier: Apache-2.0
// Streams and events of the emulator: late execution, and the missing event that it shows.

#include <atomic>
#include <emulator/stream_work.hpp>
#include <thread>

#include "test_support.hpp"

namespace {

using namespace emulator_test;
using cuda_emulator::Schedule;

struct Event {
  cudaEvent_t handle = nullptr;
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    REQUIRE(cudaEventCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  ~Event() { cudaEventDestroy(handle); }
  Event(Event const&) = delete;
  Event& operator=(Event const&) = delete;
};

// x = 1 on one stream, y = 2 x on another; the result with and without an event between them.
float produced_and_consumed(bool ordered) {
  Stream const producer{Device{0}};
  Stream const consumer{Device{0}};
  Event const event;
  Array<float> x{std::vector<float>(8, 5.0F)};
  Array<float> y{8};
  launch(fill_kernel, 1, 8, producer, x.data(), 8, 1.0F);
  if (ordered) {
    cudaEventRecord(event.handle, producer.get());
    cudaStreamWaitEvent(consumer.get(), event.handle, 0);
  }
  launch(twice_kernel, 1, 8, consumer, x.data(), y.data(), 8);
  CHECK(cudaStreamSynchronize(consumer.get()) == cudaSuccess);
  return y.host()[0];
}

TEST_CASE("a missing event between two streams gives a wrong number") {
  CHECK(produced_and_consumed(true) == 2.0F);
  CHECK(produced_and_consumed(false) == 10.0F);
}

// y = 2 x on one stream, then x = 1 on another that does not wait for the reading.
float overwritten(bool ordered) {
  Stream const reader{Device{0}};
  Stream const writer{Device{0}};
  Event const event;
  Array<float> x{std::vector<float>(8, 5.0F)};
  Array<float> y{8};
  launch(twice_kernel, 1, 8, reader, x.data(), y.data(), 8);
  if (ordered) {
    cudaEventRecord(event.handle, reader.get());
    cudaStreamWaitEvent(writer.get(), event.handle, 0);
  }
  launch(fill_kernel, 1, 8, writer, x.data(), 8, 1.0F);
  CHECK(cudaStreamSynchronize(writer.get()) == cudaSuccess);
  CHECK(cudaStreamSynchronize(reader.get()) == cudaSuccess);
  return y.host()[0];
}

TEST_CASE("overwriting what another stream has yet to read gives a wrong number") {
  CHECK(overwritten(true) == 10.0F);
  CHECK(overwritten(false) == 2.0F);
}

// f(first, second) puts work on two streams of device 0, and may order it; what is said of it.
template <class F>
std::string race_of(F const& f) {
  Watched const watched;
  Misuse const misuse;
  {
    Stream const first{Device{0}};
    Stream const second{Device{0}};
    f(first, second);
    static_cast<void>(cudaStreamSynchronize(first.get()));
    static_cast<void>(cudaStreamSynchronize(second.get()));
  }
  return cuda_emulator::last_report();
}

void order(Stream const& first, Stream const& second) {
  Event const event;
  cudaEventRecord(event.handle, first.get());
  cudaStreamWaitEvent(second.get(), event.handle, 0);
}

TEST_CASE("work that nothing orders is a fault where it meets, also where its numbers are right") {
  Array<float> x{std::vector<float>(8, 0.0F)};
  Array<float> y{std::vector<float>(8, 0.0F)};
  float* pinned = nullptr;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&pinned), 32) == cudaSuccess);
  auto const set = [](Stream const& stream, float* to, std::size_t n) {
    cudaMemsetAsync(to, 0, n * 4, stream.get());
  };
  auto const copy = [](Stream const& stream, float const* from, float* to, std::size_t n) {
    cudaMemcpyAsync(to, from, n * 4, cudaMemcpyDefault, stream.get());
  };
  auto const race = [](std::string const& report) {
    INFO(report);
    return report.find("a race: ") == 0;
  };
  for (Schedule const schedule : {Schedule::lazy, Schedule::eager}) {
    Scheduled const scheduled{schedule};
    // Writes with writes, writes with reads, reads with writes; kernels by where their pointers
    // point.
    CHECK(race(race_of([&](Stream const& a, Stream const& b) {
      set(a, x.data(), 4);
      set(b, x.data() + 3, 4);
    })));
    CHECK(race(race_of([&](Stream const& a, Stream const& b) {
      set(a, x.data(), 8);
      copy(b, x.data() + 7, pinned, 1);
    })));
    CHECK(race(race_of([&](Stream const& a, Stream const& b) {
      copy(a, x.data(), pinned, 8);
      launch(fill_kernel, 1, 8, b, x.data(), 8, 0.0F);
    })));
    CHECK(race(race_of([&](Stream const& a, Stream const& b) {
      launch(twice_kernel, 1, 8, a, x.data(), y.data(), 8);
      launch(fill_kernel, 1, 8, b, x.data(), 8, 0.0F);
    })));
    // Nothing in common, or nothing written.
    CHECK(race_of([&](Stream const& a, Stream const& b) {
            set(a, x.data(), 4);
            set(b, x.data() + 4, 4);
            copy(a, y.data(), pinned, 4);
            copy(b, y.data(), pinned + 4, 4);
          }).empty());
    // Ordered by an event, by two, by the host.
    CHECK(race_of([&](Stream const& a, Stream const& b) {
            set(a, x.data(), 8);
            order(a, b);
            set(b, x.data(), 8);
            Stream const c{Device{0}};
            order(b, c);
            copy(c, x.data(), pinned, 8);
            cudaStreamSynchronize(c.get());
            set(a, x.data(), 8);
          }).empty());
    CHECK(race(race_of([&](Stream const& a, Stream const& b) {
      order(a, b);  // recorded before it
      set(a, x.data(), 8);
      set(b, x.data(), 8);
    })));
  }
  CHECK(race_of([&](Stream const& a, Stream const&) {
          set(a, x.data(), 8);
          float host[8];  // the default stream does not wait for it
          CHECK(cudaMemcpy(host, x.data(), 32, cudaMemcpyDeviceToHost) == cudaErrorLaunchFailure);
        }).find("a race: cudaMemcpy reads 32 bytes") == 0);
  cudaFreeHost(pinned);
}

TEST_CASE("memory of a pool that another stream may still use is no race where it was waited for") {
  for (bool const waits : {false, true}) {
    std::string const report = race_of([&](Stream const& owner, Stream const& user) {
      float* x = nullptr;
      cudaMallocAsync(reinterpret_cast<void**>(&x), 32, owner.get());
      order(owner, user);
      cudaMemsetAsync(x, 0, 32, user.get());
      if (waits) {
        order(user, owner);
      }
      cudaFreeAsync(x, owner.get());
    });
    CHECK((report.find("a race: free writes 32 bytes") == 0) == !waits);
  }
}

TEST_CASE("an event forces its stream up to the record, and no further") {
  std::size_t const of_others = cuda_emulator::pending_work();
  Stream const stream{Device{0}};
  Event const event;
  Array<float> x{std::vector<float>(1, 0.0F)};
  launch(fill_kernel, 1, 1, stream, x.data(), 1, 1.0F);
  cudaEventRecord(event.handle, stream.get());
  launch(fill_kernel, 1, 1, stream, x.data(), 1, 2.0F);
  CHECK(x.host()[0] == 0.0F);  // cudaMemcpy does not wait for a non-blocking stream
  CHECK(cudaEventSynchronize(event.handle) == cudaSuccess);
  CHECK(x.host()[0] == 1.0F);
  CHECK(cuda_emulator::pending_work() == of_others + 1);
  CHECK(cudaEventQuery(event.handle) == cudaSuccess);
  CHECK(cudaStreamQuery(stream.get()) == cudaSuccess);  // also runs what can run
  CHECK(x.host()[0] == 2.0F);
}

TEST_CASE("the eager schedule runs work when it is enqueued") {
  std::size_t const of_others = cuda_emulator::pending_work();
  Scheduled const scheduled{Schedule::eager};
  Stream const stream{Device{0}};
  Array<float> x{std::vector<float>(1, 0.0F)};
  launch(fill_kernel, 1, 1, stream, x.data(), 1, 1.0F);
  CHECK(x.host()[0] == 1.0F);
  CHECK(cuda_emulator::pending_work() <= of_others);
}

TEST_CASE("asynchronous copies read pinned memory late and pageable memory at the call") {
  Stream const stream{Device{0}};
  Array<float> x{1};
  float* pinned = nullptr;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(float)) == cudaSuccess);
  float pageable = 1.0F;
  *pinned = 1.0F;
  cudaMemcpyAsync(x.data(), pinned, sizeof(float), cudaMemcpyHostToDevice, stream.get());
  *pinned = 2.0F;  // too early
  cudaStreamSynchronize(stream.get());
  CHECK(x.host()[0] == 2.0F);
  cudaMemcpyAsync(x.data(), &pageable, sizeof(float), cudaMemcpyHostToDevice, stream.get());
  pageable = 3.0F;
  cudaStreamSynchronize(stream.get());
  CHECK(x.host()[0] == 1.0F);

  launch(fill_kernel, 1, 1, stream, x.data(), 1, 7.0F);
  cudaMemcpyAsync(pinned, x.data(), sizeof(float), cudaMemcpyDeviceToHost, stream.get());
  CHECK(*pinned == 2.0F);  // nobody has waited
  cudaMemcpyAsync(&pageable, x.data(), sizeof(float), cudaMemcpyDeviceToHost, stream.get());
  CHECK(pageable == 7.0F);  // returns when it is done, as CUDA does
  CHECK(*pinned == 7.0F);
  cudaFreeHost(pinned);
}

TEST_CASE("work that is not ready blocks its stream until something changes") {
  Stream const stream{Device{0}};
  bool ready = false;  // under the emulator's lock
  int attempts = 0;
  int done = 0;
  auto const start = [&](cuda_emulator::Ticket const&) -> cuda_emulator::Attempt {
    return [&] {
      ++attempts;
      return ready;
    };
  };
  CHECK(cuda_emulator::enqueue_retried(stream.get(), "gate", start) == cudaSuccess);
  CHECK(cuda_emulator::enqueue(stream.get(), "after", [&] { ++done; }) == cudaSuccess);
  CHECK(cudaStreamQuery(stream.get()) == cudaErrorNotReady);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(attempts == 1);
  std::thread opener{[&] {
    auto const held = cuda_emulator::lock();
    ready = true;
    cuda_emulator::notify_changed();
  }};
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  opener.join();
  CHECK(done == 1);
}

TEST_CASE("an attempt may advance the streams that it waits for") {
  Stream const first{Device{0}};
  Stream const second{Device{1}};
  int arrived = 0;
  std::vector<cuda_emulator::Ticket> tickets;
  auto const start = [&](cuda_emulator::Ticket const& ticket) -> cuda_emulator::Attempt {
    tickets.push_back(ticket);
    std::size_t const me = tickets.size() - 1;
    return [&, me, here = false]() mutable {
      if (!here) {
        here = true;
        ++arrived;
      }
      for (std::size_t i = 0; i < tickets.size() && arrived < 2; ++i) {
        if (i != me) {
          auto const peer = tickets[i];
          cuda_emulator::advance(peer);
        }
      }
      return arrived == 2;
    };
  };
  cuda_emulator::enqueue_retried(first.get(), "collective", start);
  cuda_emulator::enqueue_retried(second.get(), "collective", start);
  CHECK(cudaStreamSynchronize(first.get()) == cudaSuccess);  // nobody forces the second
  CHECK(arrived == 2);
  cudaStreamSynchronize(second.get());
}

TEST_CASE(
    "a host function runs in order, may wait for another thread, and blocks only its stream") {
  Stream const gated{Device{0}};
  Stream const other{Device{0}};
  static std::atomic<bool> open;
  static std::atomic<bool> entered;
  open = false;
  entered = false;
  Array<float> x{std::vector<float>(2, 0.0F)};
  cudaLaunchHostFunc(
      gated.get(),
      [](void*) {
        entered = true;
        while (!open) {
          std::this_thread::yield();
        }
      },
      nullptr);
  launch(fill_kernel, 1, 1, gated, x.data(), 1, 1.0F);
  std::thread waiter{[&] { CHECK(cudaStreamSynchronize(gated.get()) == cudaSuccess); }};
  while (!entered) {
    std::this_thread::yield();
  }
  launch(fill_kernel, 1, 1, other, x.data() + 1, 1, 2.0F);
  CHECK(cudaStreamSynchronize(other.get()) == cudaSuccess);
  CHECK(x.host()[1] == 2.0F);
  open = true;
  waiter.join();
  CHECK(x.host()[0] == 1.0F);
}

TEST_CASE("work of a destroyed stream is still done") {
  Array<float> x{std::vector<float>(1, 0.0F)};
  Event const event;
  {
    Stream const stream{Device{0}};
    launch(fill_kernel, 1, 1, stream, x.data(), 1, 1.0F);
    cudaEventRecord(event.handle, stream.get());
  }
  CHECK(cudaEventSynchronize(event.handle) == cudaSuccess);
  CHECK(x.host()[0] == 1.0F);
  {
    Stream const stream{Device{0}};
    launch(fill_kernel, 1, 1, stream, x.data(), 1, 2.0F);
  }
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(x.host()[0] == 2.0F);
}

TEST_CASE("events measure time, and belong to a device") {
  Stream const stream{Device{0}};
  Stream const other{Device{1}};
  Event const begin{cudaEventDefault};
  Event const end{cudaEventDefault};
  Event const untimed;
  float ms = -1.0F;
  CHECK(cudaEventQuery(begin.handle) == cudaSuccess);  // never recorded counts as reached
  cudaEventRecord(begin.handle, stream.get());
  cudaEventRecord(end.handle, stream.get());
  cudaEventRecord(untimed.handle, stream.get());
  CHECK(cudaEventElapsedTime(&ms, begin.handle, end.handle) == cudaErrorNotReady);
  cudaStreamSynchronize(stream.get());
  CHECK(cudaEventElapsedTime(&ms, begin.handle, end.handle) == cudaSuccess);
  CHECK(ms >= 0.0F);
  CHECK(cudaEventElapsedTime(&ms, begin.handle, untimed.handle) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(begin.handle, other.get()) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamWaitEvent(other.get(), end.handle, 0) == cudaSuccess);  // across devices
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("handles that are gone are errors, not crashes") {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cudaStreamCreate(&stream);
  cudaEventCreate(&event);
  std::size_t const handles = cuda_emulator::live_handles();
  cudaStreamDestroy(stream);
  cudaEventDestroy(event);
  CHECK(cuda_emulator::live_handles() == handles - 2);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
