// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The update of all parameters in one launch, and the norm of their gradient.
///
/// Blocks work on chunks of runs; a run's functor stands in device memory, where finish_step has
/// made it. What the functors compute is optim/'s business.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

#include <tandem/core/config.hpp>
#if TANDEM_DEVICE_CODE
#include <cub/block/block_load.cuh>
#include <cub/block/block_store.cuh>
#endif

#include <tandem/core/finite.hpp>
#include <tandem/core/gradient_rows.hpp>
#include <tandem/core/loss_scaling.hpp>
#include <tandem/kernels/cuda/compute_type.hpp>
#include <tandem/kernels/cuda/launch.cuh>
#include <tandem/kernels/cuda/pack.hpp>
#include <tandem/kernels/cuda/row_lanes.cuh>
#include <tandem/kernels/cuda/update_chunk.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

/// One run's functor: of its weights, or of its statistics.
template <class Weight, class Statistic>
struct RunUpdate {
  Weight weight;
  Statistic average;
  bool statistic;
};

namespace detail {

/// f(gradient, in double) of each gradient of a chunk that is this thread's.
template <class P, class F>
__device__ void each_gradient(P const* gradients, int count, F const& f) {
  constexpr int items = 8;
  using Load = cub::BlockLoad<P, row_threads, items, cub::BLOCK_LOAD_STRIPED>;
  for (int first = 0; first < count; first += items * row_threads) {
    P gradient[items];
    Load{}.Load(gradients + first, gradient, count - first, P{0});
    for (int i = 0; i < items; ++i) {
      f(static_cast<double>(gradient[i]));
    }
  }
}

template <class P, class Settings>
TANDEM_KERNEL void gradient_squares_kernel(UpdateChunk const* chunks, Settings const* runs,
                                           P const* gradients, std::int64_t origin,
                                           double* squares) {
  await_previous();
  UpdateChunk const chunk = chunks[blockIdx.x];
  double own = 0;
  each_gradient(gradients + (chunk.begin - origin), runs[chunk.run].statistic ? 0 : chunk.count,
                [&](double g) { own += g * g; });
  double const total = sum_lanes<row_threads>(own);
  if (threadIdx.x == 0) {
    squares[blockIdx.x] = total;
  }
}

template <class P, class Settings>
TANDEM_KERNEL void check_gradients_kernel(UpdateChunk const* chunks, Settings const* runs,
                                          P const* gradients, double* sums) {
  await_previous();
  UpdateChunk const chunk = chunks[blockIdx.x];
  Settings const run = runs[chunk.run];
  bool finite = true;
  each_gradient(gradients + (chunk.begin - run.gradient_lag), run.statistic ? 0 : chunk.count,
                [&](double g) { finite = finite && is_finite(g); });
  if (!finite) {
    sums[run.parameter] = HUGE_VAL;  // whoever else writes there writes it, too
  }
}

template <class T>
TANDEM_KERNEL void join_squares_kernel(ChunkRange const* ranges, T const* squares, T* sums) {
  await_previous();
  ChunkRange const range = ranges[blockIdx.x];
  T own = 0;
  for (int i = range.first + static_cast<int>(threadIdx.x); i < range.last; i += row_threads) {
    own += squares[i];
  }
  T const total = sum_lanes<row_threads>(own);
  if (threadIdx.x == 0) {
    sums[blockIdx.x] = total;
  }
}

/// Null or a multiple of 16 bytes, from element @p at on.
template <class T>
TANDEM_HOST_DEVICE bool starts_pack(T const* x, std::int64_t at) {
  return x == nullptr || reinterpret_cast<std::uintptr_t>(x + at) % 16 == 0;
}

/// The step of N numbers, and their new values rounded.
template <class T, class Update, class P, int N, std::size_t States>
__device__ Pack<T, N> next_pack(Update const& update, Pack<P, N>& p, Pack<P, N> const& g,
                                Pack<P, N> (&moved)[States]) {
  Pack<T, N> result;
  for (int i = 0; i < N; ++i) {
    P state[States];
    for (std::size_t s = 0; s < States; ++s) {
      state[s] = moved[s].value[i];
    }
    p.value[i] = update.next(p.value[i], g.value[i], state);
    for (std::size_t s = 0; s < States; ++s) {
      moved[s].value[i] = state[s];
    }
    result.value[i] = store<T>(static_cast<ComputeType<T>>(p.value[i]));
  }
  return result;
}

/// Updates a chunk of whole packs of N: items of 16 bytes, neighbours in neighbouring threads.
template <int N, class Update, class T>
__device__ void update_packs(Update const& update, UpdateChunk const& chunk, T* rounded) {
  auto const& run = update.run;
  using P = std::remove_pointer_t<decltype(run.parameter)>;
  for (int begin = 0; begin < chunk.count; begin += N * row_threads) {
    int const packs = (chunk.count - begin) / N;
    std::int64_t const at = chunk.begin + begin;
    auto const read = [=](P const* x) {
      using Load = cub::BlockLoad<Pack<P, N>, row_threads, 1, cub::BLOCK_LOAD_STRIPED>;
      Pack<P, N> item[1] = {};
      if (x != nullptr) {
        Load{}.Load(packs_at<N>(x + at), item, packs);
      }
      return item[0];
    };
    auto const write = [=](auto* x, auto const& pack) {
      using Item = std::remove_cvref_t<decltype(pack)>;
      using Store = cub::BlockStore<Item, row_threads, 1, cub::BLOCK_STORE_STRIPED>;
      Item item[1] = {pack};
      if (x != nullptr) {
        Store{}.Store(packs_at<N>(x + at), item, packs);
      }
    };
    Pack<P, N> p = read(run.parameter);
    Pack<P, N> const g = read(run.gradient);
    constexpr int states = std::extent_v<std::remove_cvref_t<decltype(run.state)>>;
    Pack<P, N> moved[states];
    for (int s = 0; s < states; ++s) {
      moved[s] = read(run.state[s]);
    }
    Pack<T, N> const result = next_pack<T>(update, p, g, moved);
    write(run.parameter, p);
    for (int s = 0; s < states; ++s) {
      write(run.state[s], moved[s]);
    }
    write(rounded, result);
  }
}

template <class Update, class T>
__device__ void update_all(Update const& update, UpdateChunk const& chunk, T* rounded) {
  auto const& run = update.run;
  using P = std::remove_pointer_t<decltype(run.parameter)>;
  constexpr int n = full_pack<P>;
  std::int64_t const at = chunk.begin;
  bool packs =
      chunk.count % n == 0 && starts_pack(run.parameter, at) && starts_pack(run.gradient, at) &&
      (rounded == nullptr || reinterpret_cast<std::uintptr_t>(rounded + at) % (n * sizeof(T)) == 0);
  for (P* const state : run.state) {
    packs = packs && starts_pack(state, at);
  }
  if (packs) {
    update_packs<n>(update, chunk, rounded);
  } else {
    update_packs<1>(update, chunk, rounded);
  }
}

template <class Run, class T>
TANDEM_KERNEL void apply_update_kernel(UpdateChunk const* chunks, Run const* runs, T* rounded,
                                       int const* stopped) {
  await_previous();
  int const flag = *stopped;
  if (flag == update_nothing) {
    return;
  }
  UpdateChunk const chunk = chunks[blockIdx.x];
  Run const run = runs[chunk.run];
  if (run.statistic) {
    update_all(run.average, chunk, rounded);
  } else if (flag == update_all_parameters) {
    update_all(run.weight, chunk, rounded);
  }
}

/// Makes the functor of the chunk's run in shared memory, since it may take a power or two.
template <class Run, class Make>
__device__ Run const& make_once(Make const& make, std::byte* memory, int run) {
  if (threadIdx.x == 0) {
    new (memory) Run{make(run)};
  }
  __syncthreads();
  return *reinterpret_cast<Run const*>(memory);
}

template <class Make, class T>
TANDEM_KERNEL void make_and_apply_kernel(UpdateChunk const* chunks, Make make, T* rounded,
                                         int const* stopped) {
  await_previous();
  using Run = typename Make::Run;
  alignas(16) __shared__ std::byte memory[sizeof(Run)];
  int const flag = *stopped;
  if (flag == update_nothing) {
    return;
  }
  UpdateChunk const chunk = chunks[blockIdx.x];
  Run const run = make_once<Run>(make, memory, chunk.run);
  if (run.statistic) {
    update_all(run.average, chunk, rounded);
  } else if (flag == update_all_parameters) {
    update_all(run.weight, chunk, rounded);
  }
}

/// The functor of a run that stands in memory.
template <class Made>
struct FetchRun {
  using Run = Made;

  Run const* runs;
  __device__ Run operator()(int run) const { return runs[run]; }
};

/// Packs of a thread in update_rows_kernel, so that functors are made for some thousand numbers.
inline constexpr int row_update_packs = 4;

/// Thread i has every 256th of its block's packs of the rows' gradients.
/// @param first  of the parameter, among all
template <int N, class Make, class P, class T>
TANDEM_KERNEL void update_rows_kernel(std::int32_t const* count, std::int32_t const* row,
                                      P const* gradient, int width, std::int64_t first, int run,
                                      Make make, T* rounded, int const* stopped) {
  await_previous();
  using Run = typename Make::Run;
  alignas(16) __shared__ std::byte memory[sizeof(Run)];
  int const packs = width / N;
  std::int64_t const begin = std::int64_t{blockIdx.x} * row_update_packs * row_threads;
  std::int64_t const all = std::int64_t{*count} * packs;
  if (*stopped != update_all_parameters || begin >= all) {
    return;
  }
  auto const update = make_once<Run>(make, memory, run).weight;
  for (int i = 0; i < row_update_packs; ++i) {
    std::int64_t const pack = begin + i * row_threads + static_cast<int>(threadIdx.x);
    if (pack >= all) {
      return;
    }
    std::int64_t const at = first + row[pack / packs] * std::int64_t{width} + pack % packs * N;
    constexpr int states = std::extent_v<std::remove_cvref_t<decltype(update.run.state)>>;
    Pack<P, N> moved[states] = {};
    for (int s = 0; s < states; ++s) {
      if (update.run.state[s] != nullptr) {
        moved[s] = load_pack<N>(static_cast<P const*>(update.run.state[s]) + at);
      }
    }
    Pack<P, N> p = load_pack<N>(static_cast<P const*>(update.run.parameter) + at);
    Pack<T, N> const result = next_pack<T>(update, p, load_pack<N>(gradient + pack * N), moved);
    store_pack(update.run.parameter + at, p);
    for (int s = 0; s < states; ++s) {
      if (update.run.state[s] != nullptr) {
        store_pack(update.run.state[s] + at, moved[s]);
      }
    }
    if (rounded != nullptr) {
      store_pack(rounded + at, result);
    }
  }
}

template <class Make>
TANDEM_KERNEL void move_states_kernel(UpdateChunk const* chunks, std::int64_t all, Make make,
                                      double* squares, int const* stopped) {
  await_previous();
  using Run = typename Make::Run;
  alignas(16) __shared__ std::byte memory[sizeof(Run)];
  if (*stopped != update_all_parameters) {
    return;
  }
  UpdateChunk const chunk = chunks[blockIdx.x];
  Run const run = make_once<Run>(make, memory, chunk.run);
  double of_parameter = 0;
  double of_direction = 0;
  for (int i = static_cast<int>(threadIdx.x); i < chunk.count && !run.statistic; i += row_threads) {
    run.weight.move(chunk.begin + i, of_parameter, of_direction);
  }
  double const parameters = sum_lanes<row_threads>(of_parameter);
  __syncthreads();  // both sums share memory
  double const directions = sum_lanes<row_threads>(of_direction);
  if (threadIdx.x == 0) {
    squares[blockIdx.x] = parameters;
    squares[all + blockIdx.x] = directions;
  }
}

}  // namespace detail

/// squares[i] = the sum of the squares of chunk i's gradients, in double; 0 where its run is of
/// statistics.
///
/// Shapes: chunks, squares (count); runs by UpdateChunk::run, of a type with a bool `statistic`.
/// Cost:   reads the gradients once; bound by memory.
/// Order:  element i of a chunk goes to thread i mod 256; then as in join_lanes(). The same on any
///         device, unlike that of cub::DeviceSegmentedReduce: ranks must agree on the norm.
/// @param origin  whose gradient is the first of @p gradients
template <class P, class Settings>
void gradient_squares(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                      Settings const* runs, P const* gradients, double* squares,
                      std::int64_t origin = 0) {
  launch(detail::gradient_squares_kernel<P, Settings>, blocks_for(count, 1), row_threads, stream,
         chunks, runs, gradients, origin, squares);
}

/// sums[p] = infinity for each parameter p with a gradient in these chunks that is not finite;
/// others stay.
///
/// Shapes: chunks (count); runs by UpdateChunk::run, with `statistic`, `parameter`, and how far
///         before their place in @p gradients theirs stand, `gradient_lag`.
/// Cost:   reads the gradients once; bound by memory.
template <class P, class Settings>
void check_gradients(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                     Settings const* runs, P const* gradients, double* sums) {
  launch(detail::check_gradients_kernel<P, Settings>, blocks_for(count, 1), row_threads, stream,
         chunks, runs, gradients, sums);
}

/// sums[i] = the sum of squares[j] for each chunk j of ranges[i]; 0 where there is none.
///
/// Shapes: ranges, sums (count).
/// Cost:   a block a parameter, of which most have one chunk.
/// Order:  the range's j-th goes to thread j mod 256; then as in join_lanes().
template <class T>
void join_squares(Stream const& stream, ChunkRange const* ranges, std::int64_t count,
                  T const* squares, T* sums) {
  launch(detail::join_squares_kernel<T>, blocks_for(count, 1), row_threads, stream, ranges, squares,
         sums);
}

/// Each parameter of the chunks, and its optimizer states, becomes what its run's functor says;
/// rounded[i] = parameter i rounded to T, unless @p rounded is null. *stopped is an UpdateFlag.
///
/// Shapes: chunks (count); runs, each a RunUpdate, by UpdateChunk::run. A functor has `run`, with
///         the arrays of all parameters, and next(p, g, state), the parameter's new value.
/// Cost:   reads parameters, gradients and states and writes all but gradients; bound by memory.
template <class Run, class T>
void apply_update(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                  Run const* runs, T* rounded, int const* stopped) {
  launch(detail::apply_update_kernel<Run, T>, blocks_for(count, 1), row_threads, stream, chunks,
         runs, rounded, stopped);
}

/// The same where functors are made for each chunk: make(run) is a Make::Run, a RunUpdate.
template <class Make, class T>
void make_and_apply(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                    Make const& make, T* rounded, int const* stopped) {
  launch(detail::make_and_apply_kernel<Make, T>, blocks_for(count, 1), row_threads, stream, chunks,
         make, rounded, stopped);
}

/// A step of the rows of a parameter whose gradient these are, whose row 0 is number @p first of
/// all parameters, by the functor make(run).weight; of the others nothing, nor where the flag says
/// so.
///
/// Cost:  as of apply_update, of as many numbers as the rows have.
/// @pre   the arrays of all parameters and states begin at multiples of 16 bytes, and so does row 0
template <class Make, class P, class T>
void update_rows(Stream const& stream, GradientRows<P> const& rows, std::int64_t first, int run,
                 Make const& make, T* rounded, int const* stopped) {
  auto const queue = [&](auto width) {
    constexpr int n = decltype(width)::value;
    launch(detail::update_rows_kernel<n, Make, P, T>,
           blocks_for(rows.most * (rows.width / n), detail::row_update_packs * row_threads),
           row_threads, stream, rows.count, rows.row, rows.value, rows.width, first, run, make,
           rounded, stopped);
  };
  if (rows.width % full_pack<P> == 0) {
    queue(std::integral_constant<int, full_pack<P>>{});
  } else {
    queue(std::integral_constant<int, 1>{});
  }
}

/// Calls move(i, p, u) of the functor make(run).weight for each weight i, and writes the sums that
/// it adds to p to squares[chunk], to u to squares[all + chunk]; 0 for statistics.
///
/// Shapes: chunks (count), of all; squares (all + count).
/// Order:  element i of a chunk goes to thread i mod 256; then as in join_lanes().
template <class Make>
void move_states(Stream const& stream, UpdateChunk const* chunks, std::int64_t count,
                 std::int64_t all, Make const& make, double* squares, int const* stopped) {
  launch(detail::move_states_kernel<Make>, blocks_for(count, 1), row_threads, stream, chunks, all,
         make, squares, stopped);
}

}  // namespace tandem::cuda
