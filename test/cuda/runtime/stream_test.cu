// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/error.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/runtime/cuda/range.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

#include <device_array.hpp>

namespace {

using namespace tandem::cuda;
using tandem::test::DeviceArray;
using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Stream> && std::is_nothrow_move_assignable_v<Stream>);
static_assert(!std::is_copy_constructible_v<Event> && std::is_nothrow_move_assignable_v<Event>);
static_assert(!std::is_move_constructible_v<RankDevice>);

// y = factor * x + y, on one thread for each element.
__global__ void multiply_add_kernel(float factor, float const* x, float* y, std::int64_t n) {
  std::int64_t const i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) {
    y[i] = factor * x[i] + y[i];
  }
}

void multiply_add(Stream const& stream, float factor, DeviceArray<float> const& x,
                  DeviceArray<float> const& y) {
  launch(multiply_add_kernel, Grid{blocks_for(x.size(), 64)}, 64, stream, factor, x.data(),
         y.data(), x.size());
}

// The stream's later work waits for about 20 ms.
void hold_back(Stream const& stream) {
  check(cudaLaunchHostFunc(
      stream.get(), [](void*) { std::this_thread::sleep_for(20ms); }, nullptr));
}

TEST_CASE("an event that no stream has recorded counts as reached") {
  Event const event{Device{0}};
  CHECK(event.reached());
  event.wait();
}

TEST_CASE("an event is reached after the work before it, and asking leaves no error") {
  RankDevice device{Device{0}};
  Event event{device.device};
  hold_back(device.compute);
  device.compute.record(event);
  while (!event.reached()) {
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  device.compute.record(event);
  event.wait();
  CHECK(event.reached());
}

TEST_CASE("a stream that waits for an event runs after the other's work") {
  RankDevice device{Device{0}};
  std::int64_t const n = 1000;
  std::vector<float> const ones(n, 1.0F);
  for (int round = 0; round < 10; ++round) {
    DeviceArray<float> const x{device, ones};
    DeviceArray<float> const y{device, ones};
    DeviceArray<float> const z{device, ones};
    Event event{device.device};
    hold_back(device.communication);
    multiply_add(device.communication, 2.0F, x, y);  // y = 3
    device.communication.record(event);
    device.compute.wait_for(event);
    multiply_add(device.compute, 10.0F, y, z);  // z = 31
    CHECK(z.host() == std::vector<float>(n, 31.0F));
  }
}

TEST_CASE("the time between two events is that of the work between them") {
  RankDevice device{Device{0}};
  Event begin{device.device, Event::Timing::on};
  Event end{device.device, Event::Timing::on};
  device.compute.record(begin);
  hold_back(device.compute);
  device.compute.record(end);
  end.wait();
  Milliseconds const time = elapsed(begin, end);
  CHECK(time >= Milliseconds{0.0F});
  CHECK(time < Milliseconds{60'000.0F});
}

TEST_CASE("streams and events can be moved") {
  Stream first{Device{0}};
  cudaStream_t const handle = first.get();
  Stream second{std::move(first)};
  CHECK(second.get() == handle);
  CHECK(second.device() == Device{0});
  second = Stream{Device{0}};
  second.synchronize();
  Event event{Device{0}};
  Event other{std::move(event)};
  second.record(other);
  other.wait();
}

TEST_CASE("communication waits for computation, and computation for its mark") {
  RankDevice device{Device{0}};
  std::vector<float> const ones(100, 1.0F);
  DeviceArray<float> const x{device, ones};
  DeviceArray<float> const y{device, ones};
  DeviceArray<float> const z{device, ones};
  Event mark{device.device};
  hold_back(device.compute);
  multiply_add(device.compute, 1.0F, x, y);  // y = 2
  device.begin_on(device.communication);
  hold_back(device.communication);
  multiply_add(device.communication, 1.0F, y, z);  // z = 3
  device.mark_on(device.communication, mark);
  device.await_on(device.communication, mark);
  multiply_add(device.compute, 1.0F, z, y);  // y = 5
  CHECK(y.host() == std::vector<float>(100, 5.0F));
  CHECK(z.host() == std::vector<float>(100, 3.0F));
}

TEST_CASE("communication begins behind the computation that was queued before it") {
  RankDevice device{Device{0}};
  std::vector<float> const ones(100, 1.0F);
  DeviceArray<float> const x{device, ones};
  DeviceArray<float> const y{device, ones};
  DeviceArray<float> const z{device, ones};
  hold_back(device.compute);
  multiply_add(device.compute, 1.0F, x, y);  // y = 2
  device.begin_on(device.communication);
  multiply_add(device.communication, 1.0F, y, z);  // z = 3
  device.communication.synchronize();              // and nothing else makes compute run
  CHECK(z.host() == std::vector<float>(100, 3.0F));
}

TEST_CASE("scratch memory has the type that is asked for") {
  RankDevice device{Device{0}};
  CHECK(device.scratch_as<float>() == nullptr);
  CHECK(device.scratch_bytes == 0);
  Buffer const memory{device, 64};
  device.scratch = memory.data();
  CHECK(device.scratch_as<double>() == memory.as<double>());
}

// Holds a stream at its end until open(): then events behind this are not reached for sure.
class Gate {
 public:
  explicit Gate(Stream const& stream) {
    check(cudaLaunchHostFunc(stream.get(), &Gate::pass, this));
  }
  Gate(Gate const&) = delete;
  Gate& operator=(Gate const&) = delete;
  ~Gate() {
    open();
    if (runner_.joinable()) {
      runner_.join();
    }
  }

  // Whether the stream is held: not where the emulator has run the gate in its constructor already.
  // Another thread waits for the stream, which is what makes an emulated one run.
  [[nodiscard]] bool hold(Stream const& stream) {
    if (passed_at_once_) {
      return false;
    }
    runner_ = std::thread{[&stream] { stream.synchronize(); }};
    entered_.wait(false);
    return true;
  }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  static void pass(void* gate) {
    auto* const self = static_cast<Gate*>(gate);
    if (std::this_thread::get_id() == self->maker_) {
      self->passed_at_once_ = true;
      return;
    }
    self->entered_ = true;
    self->entered_.notify_all();
    self->open_.wait(false);
  }

  std::thread::id maker_ = std::this_thread::get_id();
  bool passed_at_once_ = false;
  std::atomic<bool> entered_{false};
  std::atomic<bool> open_{false};
  std::thread runner_;
};

TEST_CASE("waiting on the host polls until the event is reached") {
  RankDevice device{Device{0}};
  Event event{device.device};
  int polls = 0;
  device.wait(
      event, [&polls] { ++polls; }, 60'000ms);
  CHECK(polls == 0);  // it was reached before
  Gate gate{device.communication};
  device.mark_on(device.communication, event);
  if (!gate.hold(device.communication)) {
    return;
  }
  CHECK_FALSE(event.reached());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  device.wait(
      event,
      [&] {
        if (++polls == 1100) {  // more than the looks without a pause
          gate.open();
        }
      },
      60'000ms);
  CHECK(polls >= 1100);
  CHECK(event.reached());
}

TEST_CASE("waiting on the host ends by the poll's exception, or after the timeout") {
  RankDevice device{Device{0}};
  Event event{device.device};
  Gate gate{device.communication};
  device.mark_on(device.communication, event);
  if (!gate.hold(device.communication)) {
    return;
  }
  CHECK_THROWS_WITH_AS(device.wait(
                           event, [] { throw tandem::AbortedError{"rank 1 failed"}; }, 60'000ms),
                       "rank 1 failed", tandem::AbortedError);
  auto const begin = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH_AS(device.wait(
                           event, [] {}, 30ms),
                       "GPU 0 did not finish in 30 ms; another rank may hang, or raise the timeout",
                       tandem::TimeoutError);
  CHECK(std::chrono::steady_clock::now() - begin >= 30ms);
}

std::vector<std::string> ended;

template <int Number>
struct FakeLibrary {
  Device device;
  ~FakeLibrary() { ended.push_back("end of " + std::to_string(Number)); }
};

struct FailingLibrary {
  explicit FailingLibrary(Device /*device*/) { throw std::runtime_error{"no license"}; }
};

TEST_CASE("a device has one library of a type, made at its first use, destroyed last first") {
  ended.clear();
  {
    RankDevice device{Device{0}};
    auto& first = device.library<FakeLibrary<1>>();
    auto& second = device.library<FakeLibrary<2>>();
    CHECK(first.device == Device{0});
    CHECK(static_cast<void*>(&first) != static_cast<void*>(&second));
    CHECK(&first == &device.library<FakeLibrary<1>>());
    CHECK(&second == &device.library<FakeLibrary<2>>());
    for (int round = 0; round < 2; ++round) {
      CHECK_THROWS_WITH_AS(static_cast<void>(device.library<FailingLibrary>()), "no license",
                           std::runtime_error);
    }
    RankDevice other{Device{0}};
    CHECK(&other.library<FakeLibrary<1>>() != &first);
  }
  CHECK(ended == std::vector<std::string>{"end of 1", "end of 2", "end of 1"});
}

struct Witness {
  explicit Witness(Device /*device*/) { note("begin on "); }
  ~Witness() { note("end on "); }
  static void note(char const* what) {
    int ordinal = -1;
    check(cudaGetDevice(&ordinal));
    ended.push_back(what + std::to_string(ordinal));
  }
};

TEST_CASE("a library begins and ends with its device current") {
  int const count = device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    ended.clear();
    ScopedDevice const other{Device{(ordinal + 1) % count}};
    {
      RankDevice device{Device{ordinal}};
      static_cast<void>(device.library<Witness>());
    }
    std::string const number = std::to_string(ordinal);
    CHECK(ended == std::vector{"begin on " + number, "end on " + number});
  }
}

TEST_CASE("a device that is not there is named") {
  CHECK_THROWS_WITH_AS([] { RankDevice const device{Device{500}}; }(),
                       doctest::Contains("there is no GPU 500"), tandem::Error);
}

TEST_CASE("ranges nest") {
  Range const outer{"outer"};
  Range const inner{"inner"};
}

}  // namespace
