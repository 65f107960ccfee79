// SPDX-License-Identifier: Apache-2.0
// The stand-ins of CUB's block and warp collectives against plain sums, and their misuse.

#include <cmath>
#include <cub/block/block_load.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <numeric>

#include "test_support.hpp"

namespace {

using namespace emulator_test;

struct Larger {
  TANDEM_HOST_DEVICE int operator()(int a, int b) const { return a < b ? b : a; }
};

// y: for each block its sum, its maximum, the sum of its first `valid`, twice the sum by items.
template <int Threads>
TANDEM_KERNEL void reduce_kernel(int const* x, int* y, int valid) {
  using Reduce = cub::BlockReduce<int, Threads>;
  __shared__ typename Reduce::TempStorage storage;
  int const item = x[blockIdx.x * Threads + threadIdx.x];
  int const sum = Reduce(storage).Sum(item);
  __syncthreads();
  int const largest = Reduce(storage).Reduce(item, Larger{});
  __syncthreads();
  int const part = Reduce(storage).Sum(item, valid);
  __syncthreads();
  int items[2] = {item, item};
  int const twice = Reduce(storage).Sum(items);
  if (threadIdx.x == 0) {
    int* const row = y + blockIdx.x * 4;
    row[0] = sum;
    row[1] = largest;
    row[2] = part;
    row[3] = twice;
  }
}

template <int Threads>
void check_reduce() {
  CAPTURE(Threads);
  int const blocks = 3;
  std::vector<int> values(static_cast<std::size_t>(blocks * Threads));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i * 7919 % 1000) - 300;
  }
  Stream const stream{Device{0}};
  Array<int> x{values};
  Array<int> y{static_cast<std::size_t>(4 * blocks)};
  int const valid = (Threads + 1) / 2;
  launch(reduce_kernel<Threads>, blocks, Threads, stream, x.data(), y.data(), valid);
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  auto const host = y.host();
  for (int b = 0; b < blocks; ++b) {
    auto const first = values.begin() + b * Threads;
    auto const row = host.begin() + 4 * b;
    int const sum = std::accumulate(first, first + Threads, 0);
    CHECK(row[0] == sum);
    CHECK(row[1] == *std::max_element(first, first + Threads));
    CHECK(row[2] == std::accumulate(first, first + valid, 0));
    CHECK(row[3] == 2 * sum);
  }
}

TEST_CASE("BlockReduce is the sum, whole and in part") {
  check_reduce<1>();
  check_reduce<31>();
  check_reduce<32>();
  check_reduce<33>();
  check_reduce<256>();
  check_reduce<1024>();
}

// Every thread writes what it believes to be the sum.
TANDEM_KERNEL void everywhere_kernel(float* y) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  y[threadIdx.x] = Reduce(storage).Sum(1.0F);
}

TEST_CASE("the result of BlockReduce is garbage but in thread 0") {
  Stream const stream{Device{0}};
  Array<float> y{64};
  launch(everywhere_kernel, 1, 64, stream, y.data());
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  auto const host = y.host();
  CHECK(host[0] == 64.0F);
  CHECK(std::all_of(host.begin() + 1, host.end(), [](float v) { return std::isnan(v); }));
}

TANDEM_KERNEL void reuse_kernel(float* y) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  float const first = Reduce(storage).Sum(1.0F);
  float const second = Reduce(storage).Sum(2.0F);  // no barrier since the first
  y[threadIdx.x] = first + second;
}

TANDEM_KERNEL void union_kernel(float* y) {
  using Reduce = cub::BlockReduce<float, 64>;
  using Scan = cub::BlockScan<float, 64>;
  __shared__ union {
    typename Reduce::TempStorage reduce;
    typename Scan::TempStorage scan;
  } storage;
  float const sum = Reduce(storage.reduce).Sum(1.0F);
  float before = 0.0F;
  Scan(storage.scan).ExclusiveSum(sum, before);
  y[threadIdx.x] = before;
}

// Relies on a barrier inside BlockReduce to see its neighbour's value.
TANDEM_KERNEL void lean_kernel(float* y) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0F;
  Reduce(storage).Sum(1.0F);
  y[threadIdx.x] = tile[63 - threadIdx.x];
}

TANDEM_KERNEL void some_threads_kernel(float* y) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  if (threadIdx.x < 48) {
    y[threadIdx.x] = Reduce(storage).Sum(1.0F);
  }
}

TEST_CASE("misuse of BlockReduce shows") {
  Misuse const misuse;
  Stream const stream{Device{0}};
  Array<float> y{64};
  auto const run = [&](void (*kernel)(float*), int threads) {
    cuda_emulator::clear_errors();
    launch(kernel, 1, threads, stream, y.data());
    return cudaStreamSynchronize(stream.get());
  };
  CHECK(run(reuse_kernel, 64) == cudaErrorLaunchFailure);
  CHECK(misuse.says("its TempStorage was used before, with no barrier since"));
  CHECK(run(union_kernel, 64) == cudaErrorLaunchFailure);
  CHECK(misuse.says("its TempStorage was used before, with no barrier since"));
  CHECK(run(some_threads_kernel, 64) == cudaErrorLaunchFailure);
  CHECK(misuse.says("waits in cub::BlockReduce"));
  CHECK(run(everywhere_kernel, 32) == cudaErrorLaunchFailure);
  CHECK(misuse.says("made for 64 threads, used by 32"));
  CHECK(run(lean_kernel, 64) == cudaSuccess);
  auto const host = y.host();
  CHECK(std::any_of(host.begin(), host.end(), [](float v) { return std::isnan(v); }));
}

TANDEM_KERNEL void warp_reduce_kernel(int const* x, int* y, int valid) {
  using Reduce = cub::WarpReduce<int>;
  using Quarter = cub::WarpReduce<int, 8>;
  __shared__ typename Reduce::TempStorage storage[3];
  __shared__ typename Quarter::TempStorage quarters[12];
  int const t = static_cast<int>(threadIdx.x);
  int const sum = Reduce(storage[t / 32]).Sum(x[t]);
  __syncwarp();
  int const part = Reduce(storage[t / 32]).Sum(x[t], valid);
  int const quarter = Quarter(quarters[t / 8]).Reduce(x[t], Larger{});
  if (t % 32 == 0) {
    y[t / 32] = sum;
    y[3 + t / 32] = part;
  }
  if (t % 8 == 0) {
    y[6 + t / 8] = quarter;
  }
}

TEST_CASE("WarpReduce is the sum of each warp") {
  std::vector<int> values(96);
  std::iota(values.begin(), values.end(), -20);
  Stream const stream{Device{0}};
  Array<int> x{values};
  Array<int> y{18};
  launch(warp_reduce_kernel, 1, 96, stream, x.data(), y.data(), 5);
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  auto const host = y.host();
  for (std::size_t w = 0; w < 3; ++w) {
    auto const first = values.begin() + static_cast<std::ptrdiff_t>(32 * w);
    CHECK(host[w] == std::accumulate(first, first + 32, 0));
    CHECK(host[3 + w] == std::accumulate(first, first + 5, 0));
  }
  for (std::size_t q = 0; q < 12; ++q) {
    CHECK(host[6 + q] == values[8 * q + 7]);
  }
}

// Loads a tile, scans it, stores the result, in turns that carry the sum so far.
struct Carry {
  int sum;
  TANDEM_HOST_DEVICE int operator()(int whole) {
    int const before = sum;
    sum += whole;
    return before;
  }
};

TANDEM_KERNEL void scan_kernel(int const* x, int* inclusive, int* exclusive, int* carried, int n) {
  constexpr int items = 3;
  constexpr int tile = 64 * items;
  using Load = cub::BlockLoad<int, 64, items, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<int, 64, items, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  using Scan = cub::BlockScan<int, 64>;
  __shared__ union {
    typename Load::TempStorage load;
    typename Store::TempStorage store;
    typename Scan::TempStorage scan;
  } shared;
  int total = 0;
  Carry carry{0};
  for (int first = 0; first < n; first += tile) {
    int const size = n - first < tile ? n - first : tile;
    int values[items];
    int result[items];
    int whole = 0;
    Load(shared.load).Load(x + first, values, size, 0);
    __syncthreads();
    Scan(shared.scan).ExclusiveSum(values, result, whole);
    for (int& value : result) {
      value += total;
    }
    __syncthreads();
    Store(shared.store).Store(exclusive + first, result, size);
    __syncthreads();
    Scan(shared.scan).InclusiveSum(values, result);
    for (int& value : result) {
      value += total;
    }
    __syncthreads();
    Store(shared.store).Store(inclusive + first, result, size);
    __syncthreads();
    int const mine = values[0] + values[1] + values[2];
    Scan(shared.scan).ExclusiveSum(mine, result[0], carry);
    if (static_cast<int>(threadIdx.x) * items < size) {
      carried[first / items + static_cast<int>(threadIdx.x)] = result[0];
    }
    __syncthreads();
    total += whole;
  }
}

TEST_CASE("BlockLoad, BlockScan and BlockStore scan an array in turns") {
  int const n = 2 * 192 + 48;
  std::vector<int> values(n);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i * 31 % 17) - 5;
  }
  Stream const stream{Device{0}};
  Array<int> x{values};
  Array<int> inclusive{values.size()};
  Array<int> exclusive{values.size()};
  Array<int> carried{values.size() / 3};
  launch(scan_kernel, 1, 64, stream, x.data(), inclusive.data(), exclusive.data(), carried.data(),
         n);
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  std::vector<int> expected(values.size());
  std::inclusive_scan(values.begin(), values.end(), expected.begin());
  CHECK(inclusive.host() == expected);
  std::exclusive_scan(values.begin(), values.end(), expected.begin(), 0);
  CHECK(exclusive.host() == expected);
  auto const sums = carried.host();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    CHECK(sums[i] == expected[3 * i]);
  }
}

TANDEM_KERNEL void copy_kernel(float const* x, float* striped, float* blocked) {
  using Striped = cub::BlockLoad<float, 32, 4, cub::BLOCK_LOAD_STRIPED>;
  using Blocked = cub::BlockLoad<float, 32, 4, cub::BLOCK_LOAD_VECTORIZE>;
  float items[4];
  Striped().Load(x, items);
  for (int i = 0; i < 4; ++i) {
    striped[static_cast<int>(threadIdx.x) * 4 + i] = items[i];
  }
  Blocked().Load(x, items);
  cub::BlockStore<float, 32, 4, cub::BLOCK_STORE_STRIPED>().Store(blocked, items);
}

TEST_CASE("striped and blocked arrangements differ as they should") {
  std::vector<float> values(128);
  std::iota(values.begin(), values.end(), 0.0F);
  Stream const stream{Device{0}};
  Array<float> x{values};
  Array<float> striped{128};
  Array<float> blocked{128};
  launch(copy_kernel, 1, 32, stream, x.data(), striped.data(), blocked.data());
  REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
  auto const a = striped.host();
  auto const b = blocked.host();
  for (std::size_t t = 0; t < 32; ++t) {
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(a[4 * t + i] == static_cast<float>(t + 32 * i));
      CHECK(b[t + 32 * i] == static_cast<float>(4 * t + i));
    }
  }
}

}  // namespace
