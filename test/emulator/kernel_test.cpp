// SPDX-License-Identifier: Apache-2.0
// Kernels on the emulator: indices, barriers, shared memory, and the mistakes that must show.

#include <chrono>
#include <cmath>
#include <numeric>

#include "test_support.hpp"

namespace {

using namespace emulator_test;

__global__ void indices_kernel(int* y) {
  unsigned const block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  y[block * blockDim.x + threadIdx.x] = static_cast<int>(block * 1000 + threadIdx.x);
}

TEST_CASE("every thread of every block runs once") {
  Stream const stream{Device{0}};
  Array<int> y{2 * 3 * 4 * 33};
  launch(indices_kernel, Grid{4, 3, 2}, 33, stream, y.data());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  auto const host = y.host();
  for (int i = 0; i < 2 * 3 * 4 * 33; ++i) {
    CHECK(host[static_cast<std::size_t>(i)] == i / 33 * 1000 + i % 33);
  }
}

// Reverses each block's elements through shared memory; the barrier may be forgotten.
template <bool Barrier>
TANDEM_KERNEL void reverse_kernel(float* x) {
  __shared__ float tile[256];
  int const t = static_cast<int>(threadIdx.x);
  int const n = static_cast<int>(blockDim.x);
  float* const block = x + blockIdx.x * blockDim.x;
  tile[t] = block[t];
  if constexpr (Barrier) {
    __syncthreads();
  }
  block[t] = tile[n - 1 - t];
}

template <bool Barrier>
std::vector<float> reversed(int n, int threads) {
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1.0F);
  Stream const stream{Device{0}};
  Array<float> x{values};
  launch(reverse_kernel<Barrier>, Grid{static_cast<unsigned>(n / threads)}, threads, stream,
         x.data());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  return x.host();
}

TEST_CASE("a missing __syncthreads() shows in every order of threads") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    cuda_emulator::set_seed(seed);
    auto const right = reversed<true>(512, 128);
    CHECK(right[0] == 128.0F);
    CHECK(right[511] == 385.0F);
    auto const wrong = reversed<false>(512, 128);
    CHECK(right != wrong);
    // Nothing of an earlier block or kernel is left to be read: what was not written is NaN.
    CHECK(std::any_of(wrong.begin(), wrong.end(), [](float v) { return std::isnan(v); }));
  }
  cuda_emulator::set_seed(0);
}

// Reads shared memory before it writes it: what an earlier block left must be gone.
TANDEM_KERNEL void leftover_kernel(float* y) {
  __shared__ float value;
  y[blockIdx.x] = value;
  value = 1.0F;
}

TEST_CASE("shared memory is NaN at the begin of every block") {
  Stream const stream{Device{0}};
  Array<float> y{std::vector<float>(9, 0.0F)};
  launch(leftover_kernel, 9, 1, stream, y.data());
  cudaStreamSynchronize(stream.get());
  auto const host = y.host();
  CHECK(std::all_of(host.begin(), host.end(), [](float v) { return std::isnan(v); }));
}

// Thread t reads its left neighbour's value (or, mirrored, the right one's): some orders hide that.
template <int Step>
TANDEM_KERNEL void neighbour_kernel(float* y) {
  __shared__ float tile[128];
  int const t = static_cast<int>(threadIdx.x);
  tile[t] = static_cast<float>(t);
  int const from = t + Step;
  y[t] = from >= 0 && from < 128 ? tile[from] : 0.0F;
}

template <int Step>
bool neighbour_shows() {
  Stream const stream{Device{0}};
  Array<float> y{128};
  launch(neighbour_kernel<Step>, 1, 128, stream, y.data());
  cudaStreamSynchronize(stream.get());
  auto const host = y.host();
  return std::any_of(host.begin(), host.end(), [](float v) { return std::isnan(v); });
}

TEST_CASE("the first order of threads shows races with either neighbour") {
  cuda_emulator::set_seed(0);
  CHECK(neighbour_shows<1>());
  cuda_emulator::set_seed(0);
  CHECK(neighbour_shows<-1>());
  cuda_emulator::set_seed(0);
}

// Sums over the block in a loop; the second barrier of a turn may be forgotten.
template <bool Both>
TANDEM_KERNEL void turns_kernel(float* y, int turns) {
  __shared__ float tile[64];
  int const t = static_cast<int>(threadIdx.x);
  float sum = 0.0F;
  for (int turn = 0; turn < turns; ++turn) {
    tile[t] = static_cast<float>(turn * 64 + t);
    __syncthreads();
    sum += tile[63 - t];
    if constexpr (Both) {
      __syncthreads();
    }
  }
  y[t] = sum;
}

TEST_CASE("overwriting what others have yet to read shows") {
  Stream const stream{Device{0}};
  Array<float> right{64};
  Array<float> wrong{64};
  launch(turns_kernel<true>, 1, 64, stream, right.data(), 5);
  launch(turns_kernel<false>, 1, 64, stream, wrong.data(), 5);
  cudaStreamSynchronize(stream.get());
  for (std::size_t t = 0; t < 64; ++t) {
    CHECK(right.host()[t] == 640.0F + 5.0F * (63.0F - static_cast<float>(t)));
  }
  CHECK(wrong.host() != right.host());
}

__global__ void early_return_kernel(float* y) {
  if (threadIdx.x == 7) {
    return;
  }
  __syncthreads();
  y[threadIdx.x] = 1.0F;
}

__global__ void two_barriers_kernel(float* y) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  y[threadIdx.x] = 1.0F;
}

TEST_CASE("a barrier that not all threads reach is a launch failure, and stays one") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Array<float> y{32};
  launch(early_return_kernel, 1, 32, stream, y.data());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorLaunchFailure);
  CHECK(misuse.says("1 of 32 threads have returned"));
  CHECK(misuse.says("early_return_kernel"));
  CHECK(misuse.says("block (0, 0, 0)"));
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 16) == cudaErrorLaunchFailure);
  cuda_emulator::clear_errors();
  launch(two_barriers_kernel, 1, 32, stream, y.data());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorLaunchFailure);
  CHECK(misuse.says("threads wait at different barriers"));
  cuda_emulator::clear_errors();
  launch(fill_kernel, 1, 32, stream, y.data(), 32, 3.0F);  // the emulator still works
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(all_equal(y.host(), 3.0F));
}

__global__ void warp_kernel(float* y) {
  __shared__ float tile[96];
  int const t = static_cast<int>(threadIdx.x);
  tile[t] = static_cast<float>(t);
  __syncwarp();
  y[t] = tile[t / 32 * 32 + (t + 1) % 32];
}

TEST_CASE("__syncwarp() orders the threads of a warp") {
  Stream const stream{Device{0}};
  Array<float> y{96};
  launch(warp_kernel, 1, 96, stream, y.data());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  auto const host = y.host();
  for (std::size_t t = 0; t < 96; ++t) {
    CHECK(host[t] == static_cast<float>(t / 32 * 32 + (t + 1) % 32));
  }
}

__global__ void own_copy_kernel(float* y, int n, float value) {
  value += static_cast<float>(threadIdx.x);  // parameters are a thread's own
  n = n - 1;
  y[threadIdx.x] = value + static_cast<float>(n);
}

TEST_CASE("arguments are copied at the launch, and each thread has its own") {
  Stream const stream{Device{0}};
  Array<float> y{4};
  float value = 10.0F;
  launch(own_copy_kernel, 1, 4, stream, y.data(), 1, value);
  value = 20.0F;
  cudaStreamSynchronize(stream.get());
  CHECK(y.host() == std::vector<float>{10.0F, 11.0F, 12.0F, 13.0F});
}

TEST_CASE("pointers that the GPU cannot use are refused at the launch") {
  Misuse const misuse;
  Stream const stream{Device{1}};
  std::vector<float> host(8);
  CHECK_THROWS_AS(launch(fill_kernel, 1, 8, stream, host.data(), 8, 1.0F), tandem::cuda::CudaError);
  CHECK(misuse.says("neither device memory nor pinned memory"));
  Array<float> other{8};  // on device 0
  CHECK_THROWS_AS(launch(fill_kernel, 1, 8, stream, other.data(), 8, 1.0F),
                  tandem::cuda::CudaError);
  CHECK(misuse.says("of another device, which was not opened to this one"));
  float* freed = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&freed), 32);
  cudaFree(freed);
  CHECK_THROWS_AS(launch(fill_kernel, 1, 8, stream, freed, 8, 1.0F), tandem::cuda::CudaError);
  CHECK(misuse.says("which was freed"));
}

// The last thread's value stays, or all threads' is one.
template <bool Same>
TANDEM_KERNEL void meet_kernel(float* y) {
  *y = Same ? 1.0F : static_cast<float>(threadIdx.x);
}

// In place: what a block leaves is what the next one reads.
TANDEM_KERNEL void chain_kernel(float* y) {
  if (threadIdx.x == 0) {
    y[blockIdx.x] = y[(blockIdx.x + 1) % gridDim.x];
  }
}

// Kernels run in two orders while it lives.
struct TwoOrders {
  TwoOrders() { cuda_emulator::set_orders_compared(true); }
  ~TwoOrders() { cuda_emulator::set_orders_compared(false); }
  TwoOrders(TwoOrders const&) = delete;
  TwoOrders& operator=(TwoOrders const&) = delete;
};

TEST_CASE("what depends on the order of threads or blocks is a launch failure, in every order") {
  TwoOrders const orders;
  Stream const stream{Device{0}};
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    CAPTURE(seed);
    // Each kernel is looked at once, with so many threads.
    int const threads = 32 * (1 + static_cast<int>(seed));
    cuda_emulator::set_seed(seed);
    Array<float> y{std::vector<float>(128, 5.0F)};
    auto const fails = [&](auto kernel, Grid grid) {
      Misuse const misuse;
      launch(kernel, grid, threads, stream, y.data());
      cudaError_t const status = cudaStreamSynchronize(stream.get());
      return status == cudaErrorLaunchFailure &&
             misuse.says("the order of its threads decides what is in byte ");
    };
    CHECK(fails(meet_kernel<false>, Grid{1}));
    CHECK(fails(chain_kernel, Grid{4}));
    CHECK(fails(reverse_kernel<false>, Grid{1}));
    CHECK(fails(neighbour_kernel<1>, Grid{1}));
    launch(meet_kernel<true>, 1, threads, stream, y.data());
    launch(reverse_kernel<true>, 1, threads, stream, y.data());
    CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(y.host()[static_cast<std::size_t>(threads) - 1] == 1.0F);
  }
  cuda_emulator::set_seed(0);
}

TEST_CASE("memory of another device is used where it was opened to this one") {
  Misuse const misuse;
  Stream const stream{Device{1}};
  Array<float> other{8};  // on device 0
  auto const fill = [&](float* x) { launch(fill_kernel, 1, 8, stream, x, 8, 1.0F); };
  int possible = 0;
  CHECK(cudaDeviceCanAccessPeer(&possible, 1, 0) == cudaSuccess);
  CHECK(possible == 1);
  cudaSetDevice(1);
  CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(0, 1) == cudaErrorInvalidValue);
  CHECK(cudaDeviceDisablePeerAccess(0) == cudaErrorPeerAccessNotEnabled);
  CHECK_THROWS(fill(other.data()));
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
  CHECK_NOTHROW(fill(other.data()));
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  CHECK(all_equal(other.host(), 1.0F));

  // Which says nothing of pools.
  cudaMemPool_t pool = nullptr;
  float* x = nullptr;
  cudaSetDevice(0);
  Stream const owner{Device{0}};
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess);
  CHECK(cudaMallocAsync(reinterpret_cast<void**>(&x), 32, owner.get()) == cudaSuccess);
  cudaStreamSynchronize(owner.get());
  CHECK_THROWS(fill(x));
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = 1;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  cuda_emulator::set_peer_access(false);
  CHECK(cudaDeviceCanAccessPeer(&possible, 1, 0) == cudaSuccess);
  CHECK(possible == 0);
  CHECK(cudaMemPoolSetAccess(pool, &access, 1) == cudaErrorInvalidValue);
  cuda_emulator::set_peer_access(true);
  CHECK(cudaMemPoolSetAccess(pool, &access, 1) == cudaSuccess);
  CHECK_NOTHROW(fill(x));
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  access.flags = cudaMemAccessFlagsProtNone;
  CHECK(cudaMemPoolSetAccess(pool, &access, 1) == cudaSuccess);
  CHECK_THROWS(fill(x));
  cudaSetDevice(1);
  CHECK(cudaDeviceDisablePeerAccess(0) == cudaSuccess);
  cudaSetDevice(0);
  CHECK_THROWS(fill(other.data()));
  cudaFreeAsync(x, owner.get());
  cudaStreamSynchronize(owner.get());
}

TEST_CASE("launches that no GPU takes are refused") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Array<float> y{8};
  CHECK_THROWS_AS(launch(fill_kernel, 1, 1025, stream, y.data(), 8, 1.0F), tandem::cuda::CudaError);
  CHECK_THROWS_AS(launch(fill_kernel, Grid{1, 65536}, 32, stream, y.data(), 8, 1.0F),
                  tandem::cuda::CudaError);
  auto const status = [&](dim3 grid, dim3 block) {
    return cuda_emulator::enqueue_kernel(stream.get(), grid, block, "kernel",
                                         [](int) { return true; });
  };
  for (dim3 const block : {dim3{0, 1, 1}, dim3{1, 0, 1}, dim3{1, 1, 0}, dim3{1025, 1, 1},
                           dim3{1, 1025, 1}, dim3{1, 1, 65}, dim3{32, 32, 2}}) {
    CAPTURE(block.x);
    CAPTURE(block.y);
    CAPTURE(block.z);
    CHECK(status(1, block) == cudaErrorInvalidConfiguration);
  }
  for (dim3 const grid : {dim3{0, 1, 1}, dim3{1, 0, 1}, dim3{1, 1, 0}, dim3{2147483648U, 1, 1},
                          dim3{1, 65536, 1}, dim3{1, 1, 65536}}) {
    CAPTURE(grid.x);
    CAPTURE(grid.y);
    CAPTURE(grid.z);
    CHECK(status(grid, 32) == cudaErrorInvalidConfiguration);
  }
  CHECK(status({2147483647U, 65535, 65535}, {16, 1, 64}) == cudaSuccess);
  CHECK(status(1, {1024, 1, 1}) == cudaSuccess);
}

// Writes n floats of shared memory.
TANDEM_KERNEL void hoard_kernel(float* y, int n) {
  __shared__ float tile[12289];
  for (int i = 0; i < n; ++i) {
    tile[i] = 1.0F;
  }
  y[0] = tile[n - 1];
}

TEST_CASE("a kernel with more than 48 KiB of shared memory fails") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Array<float> y{1};
  launch(hoard_kernel, 1, 1, stream, y.data(), 12000);
  CHECK(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  launch(hoard_kernel, 1, 1, stream, y.data(), 12289);
  CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorInvalidConfiguration);
  CHECK(misuse.says("bytes of shared memory, of which there are 49152"));
}

TEST_CASE("a kernel goes to a stream of the current device only") {
  Stream const stream{Device{1}};
  CHECK(cuda_emulator::enqueue_kernel(stream.get(), 1, 32, "kernel", [](int) { return true; }) ==
        cudaErrorInvalidResourceHandle);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a kernel of a million threads takes less than a second or two") {
  Stream const stream{Device{0}};
  int const n = 1 << 20;
  Array<float> x{n};
  auto const start = std::chrono::steady_clock::now();
  launch(fill_kernel, n / 256, 256, stream, x.data(), n, 1.0F);
  cudaStreamSynchronize(stream.get());
  auto const filled = std::chrono::steady_clock::now();
  launch(reverse_kernel<true>, n / 256, 256, stream, x.data());
  cudaStreamSynchronize(stream.get());
  auto const reversed = std::chrono::steady_clock::now();
  using Seconds = std::chrono::duration<double>;
  MESSAGE("plain " << Seconds{filled - start}.count() << " s, one barrier "
                   << Seconds{reversed - filled}.count() << " s");
  CHECK(Seconds{reversed - start}.count() < 20.0);  // sanitizers and busy machines
  CHECK(all_equal(x.host(), 1.0F));
}

}  // namespace
