// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// RankDevice: the GPU of one rank with its queues, its memory pool and its libraries.
///
/// Kernels run on `compute`, collectives on `communication`, transfers from and to the host on
/// `copy`, messages on streams of their own. All overlap; the verbs below order them, and all of
/// these can be captured.
///
/// The memory pool is its own, not the device's default one, so that other libraries' use of that
/// one neither takes nor gives back this library's memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include <tandem/core/clock.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/cast_queue.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/error.hpp>
#include <tandem/runtime/cuda/range.hpp>
#include <tandem/runtime/cuda/stream.hpp>
#include <tandem/runtime/device_spec.hpp>

namespace tandem::cuda {

/// Device memory that is allocated and freed in stream order. Freed memory stays in the pool until
/// the pool is destroyed; memory that is then still in use lives until it is freed.
class MemoryPool {
 public:
  /// @throws Error  @p device does not exist, or has no memory pools
  explicit MemoryPool(Device device) : handle_{make(device)}, device_{device} {
    std::uint64_t threshold = UINT64_MAX;  // never give memory back at a synchronisation
    check(cudaMemPoolSetAttribute(get(), cudaMemPoolAttrReleaseThreshold, &threshold));
  }

  /// Lets @p other, a GPU of this process, read and write this pool's memory directly. Does nothing
  /// where the machine has no such path. What communicates between GPUs of one process needs it:
  /// peer access by cudaDeviceEnablePeerAccess does not cover pools.
  void share_with(Device other) {
    int possible = 0;
    if (other == device_) {
      return;
    }
    check(cudaDeviceCanAccessPeer(&possible, other.ordinal, device_.ordinal));
    if (possible != 0) {
      cudaMemAccessDesc access{};
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = other.ordinal;
      access.flags = cudaMemAccessFlagsProtReadWrite;
      check(cudaMemPoolSetAccess(get(), &access, 1));
    }
  }

  [[nodiscard]] cudaMemPool_t get() const noexcept { return handle_.get(); }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  static cudaMemPool_t make(Device device) {
    ScopedDevice const scope{device};
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.handleTypes = cudaMemHandleTypeNone;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device.ordinal;
    cudaMemPool_t pool = nullptr;
    check(cudaMemPoolCreate(&pool, &properties));
    return pool;
  }

  UniqueHandle<cudaMemPool_t, cudaMemPoolDestroy> handle_;
  Device device_;
};

namespace detail {

template <class Library>
inline constexpr char library_key = 0;  // its address tells the types apart

/// Objects of any type, one of a type, destroyed last made first.
class Libraries {
 public:
  Libraries() = default;
  Libraries(Libraries const&) = delete;
  Libraries& operator=(Libraries const&) = delete;
  ~Libraries() { clear(); }

  void clear() noexcept {
    for (; !entries_.empty(); entries_.pop_back()) {
      entries_.back().destroy(entries_.back().object);
    }
  }

  template <class Library>
  Library& get(Device device) {
    for (Entry const& entry : entries_) {
      if (entry.key == &library_key<Library>) {
        return *static_cast<Library*>(entry.object);
      }
    }
    ScopedDevice const scope{device};
    std::unique_ptr<Library> made{new Library{device}};
    entries_.push_back({&library_key<Library>, made.get(),
                        [](void* object) noexcept { delete static_cast<Library*>(object); }});
    return *made.release();
  }

 private:
  struct Entry {
    void const* key;
    void* object;
    void (*destroy)(void*) noexcept;
  };
  std::vector<Entry> entries_;
};

}  // namespace detail

/// One GPU as one rank sees it; used by one thread at a time. Not copyable, not movable.
struct RankDevice {
  using Mark = Event;
  using Stamp = Event;

  /// @throws Error  @p which does not exist; the message says what to do
  explicit RankDevice(Device which)
      : device{which},
        pool{which},
        compute{which},
        communication{which},
        copy{which},
        queued_{which} {}

  /// On the rank's thread, whose current device it becomes: so all that the rank calls finds it
  /// current.
  explicit RankDevice(DeviceSpec const& spec) : RankDevice{Device{spec.ordinal}} {
    check(cudaSetDevice(device.ordinal));
  }

  RankDevice(RankDevice const&) = delete;
  RankDevice& operator=(RankDevice const&) = delete;

  ~RankDevice() {
    try {
      ScopedDevice const scope{device};
      libraries_.clear();
    } catch (Error const&) {  // then without: they are members
    }
  }

  Device device;
  MemoryPool pool;
  Stream compute;
  Stream communication;
  Stream copy;
  std::byte* scratch = nullptr;  ///< of one pass at a time, on the compute stream; not owned
  std::int64_t scratch_bytes = 0;
  CastQueue casts;    ///< gradients that wait until their bucket is whole
  CastQueue packing;  ///< weights that wait to be copied to where ops read them side by side

  /// A stream on which branches of a network compute beside those on `compute`.
  struct Side {
    explicit Side(Device which) : stream{which}, done{which} {}

    Stream stream;
    Event done;
    std::byte* scratch = nullptr;  ///< not owned
    std::int64_t scratch_bytes = 0;
    CastQueue casts{};
  };
  std::vector<std::unique_ptr<Side>> sides;

  Side& add_side() {
    Side& side = *sides.emplace_back(std::make_unique<Side>(device));
    side.stream.overlap_launches(compute.overlaps_launches());
    return side;
  }

  /// `compute`, `scratch` and `casts` become those of sides[side - 1], which has the device's own
  /// meanwhile; 0: they are the device's own again.
  void turn_to(int side) noexcept {
    for (int const which : {turned_, side}) {  // back, then there
      if (which > 0 && turned_ != side) {
        Side& other = *sides[static_cast<std::size_t>(which - 1)];
        std::swap(compute, other.stream);
        std::swap(scratch, other.scratch);
        std::swap(scratch_bytes, other.scratch_bytes);
        std::swap(casts, other.casts);
      }
    }
    turned_ = side;
  }
  /// The side whose stream `compute` is, or 0.
  [[nodiscard]] int turned() const noexcept { return turned_; }
  /// The first @p count sides wait for all that is queued on the compute stream.
  /// @pre it is the device's own
  void fork(int count) {
    compute.record(queued_);
    for (int s = 0; s < count; ++s) {
      sides[static_cast<std::size_t>(s)]->stream.wait_for(queued_);
    }
  }
  /// The compute stream waits for them.
  void join(int count) {
    for (int s = 0; s < count; ++s) {
      Side& side = *sides[static_cast<std::size_t>(s)];
      side.stream.record(side.done);
      compute.wait_for(side.done);
    }
  }

  template <class T>
  [[nodiscard]] T* scratch_as() const noexcept {
    return reinterpret_cast<T*>(scratch);
  }

  /// The device's one `Library{device}`, made at the first call: a handle of cuBLASLt, say. Made
  /// and destroyed with the device current, and destroyed before the streams.
  /// @pre the first call is not inside a capture
  template <class Library>
  [[nodiscard]] Library& library() {
    return libraries_.get<Library>(device);
  }

  /// A stream besides `communication`.
  [[nodiscard]] std::unique_ptr<Stream> make_stream() const {
    return std::make_unique<Stream>(device);
  }
  /// A place on a stream, for mark_on() to set.
  [[nodiscard]] Event make_mark() const { return Event{device}; }

  /// @p stream waits for everything queued on the compute stream so far.
  void begin_on(Stream& stream) {
    compute.record(queued_);
    stream.wait_for(queued_);
  }
  /// Records @p event behind everything queued on @p stream so far.
  static void mark_on(Stream& stream, Event& event) { stream.record(event); }
  /// The compute stream waits for @p event. Does not block the caller.
  /// @pre in a capture, @p event was marked in it; outside, outside
  void await_on(Stream& /*stream*/, Event const& event) { compute.wait_for(event); }

  /// An event that stamps the time at which the compute stream, or another, has done what is queued
  /// so far.
  [[nodiscard]] Event make_stamp() const { return Event{device, Event::Timing::on}; }
  void stamp(Event& stamp) { compute.record(stamp); }
  static void stamp_on(Stream& stream, Event& stamp) { stream.record(stamp); }
  static double microseconds(Event const& from, Event const& to) {
    return 1000.0 * static_cast<double>(elapsed(from, to).count());
  }

  /// Blocks until all that was queued for computing is done. Buffers are made in the order of the
  /// compute stream: other streams may use them from then on.
  void finish() const { compute.synchronize(); }

  /// Lets another rank's GPU, of this process, read and write this one's memory.
  void share_with(DeviceSpec const& other) { pool.share_with(Device{other.ordinal}); }

  /// Does one action, named in profilers and in what CUDA may complain of; then waits for it.
  template <class Wait, class F>
  void debug(std::string const& action, Wait const& wait, F const& f) {
    Range const range{action.c_str()};
    try {
      f();
      compute.record(queued_);
      wait(*this, queued_);
    } catch (CudaError const& error) {
      throw Error{"action " + action + ": " + error.what()};
    }
  }

  /// For after an error: what is queued on @p stream may still use memory. Communicators have been
  /// aborted, so it ends by itself, and buffers are freed in the order of the compute stream, which
  /// waits for it from now on; the caller does not.
  void settle(Stream& stream) noexcept {
    try {
      stream.record(queued_);
      compute.wait_for(queued_);
    } catch (CudaError const&) {  // then the device does nothing more
    }
  }

  /// Blocks the calling thread until @p event is reached; calls @p poll, with how long it has
  /// waited if it takes that, again and again meanwhile, which may throw to end the wait, as when
  /// another rank has failed.
  ///
  /// Spins for a while, then sleeps a little between looks, so that ranks that wait do not take the
  /// CPU from ranks that queue work.
  /// @throws TimeoutError  @p event is not reached after @p timeout
  /// @throws CudaError     work queued before the event has failed
  template <class Poll>
  void wait(Event const& event, Poll&& poll, std::chrono::milliseconds timeout) const {
    using Clock = std::chrono::steady_clock;
    constexpr int spins = 1000;
    constexpr std::chrono::microseconds shortest{20};
    constexpr std::chrono::microseconds longest{200};
    auto const begin = Clock::now();
    auto pause = shortest;
    for (int look = 0; !event.reached(); ++look) {
      if constexpr (std::is_invocable_v<Poll&, Clock::duration>) {
        poll(Clock::now() - begin);
      } else {
        poll();
      }
      if (Clock::now() - begin >= timeout) {
        throw TimeoutError{"GPU " + std::to_string(device.ordinal) + " did not finish in " +
                           std::to_string(timeout.count()) +
                           " ms; another rank may hang, or raise the timeout"};
      }
      if (look < spins) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(pause);
        pause = pause * 2 < longest ? pause * 2 : longest;
      }
    }
  }

 private:
  Event queued_;
  int turned_ = 0;
  detail::Libraries libraries_;
};

}  // namespace tandem::cuda
