// SPDX-License-Identifier: Apache-2.0

/// @file
/// Bandwidth of the kernels that memory bounds, beside a device copy of the same size in the same
/// run, and the rate of a large matrix product in each precision. Prints JSON for run.py.
///
///   bench_kernels [--small]      --small: a trial of the program itself, with sizes of no meaning
///
/// Calls are recorded as a graph and replayed, as the engine does with a step, so that what the
/// host does for a launch is not measured. Each measurement works on several sets of arrays in
/// turn, so that none is still in the cache. Bytes are those of the arrays as often as the kernels
/// must read or write them.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/kernels/cuda/activations.cuh>
#include <tandem/kernels/cuda/batch_norm.cuh>
#include <tandem/kernels/cuda/batch_norm_gradient.cuh>
#include <tandem/kernels/cuda/cast.cuh>
#include <tandem/kernels/cuda/column_sum.cuh>
#include <tandem/kernels/cuda/elementwise.cuh>
#include <tandem/kernels/cuda/relu.cuh>
#include <tandem/kernels/cuda/row_norm.cuh>
#include <tandem/kernels/cuda/row_norm_weight_gradient.cuh>
#include <tandem/kernels/cuda/softmax.cuh>
#include <tandem/kernels/cuda/sum_of_squares.cuh>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace tandem::bench {
namespace {

/// @p calls calls of @p queue, whose argument counts them, recorded as the engine records a step.
cuda::Graph recorded(cuda::RankDevice& device, int calls, std::function<void(int)> const& queue) {
  cuda::Capture capture{device.compute};
  for (int call = 0; call < calls; ++call) {
    queue(call);
  }
  return capture.finish();
}

/// Seconds of one of the calls.
double seconds_of(cuda::RankDevice& device, int calls, cuda::Graph const& graph) {
  cuda::Event begin{device.device, cuda::Event::Timing::on};
  cuda::Event end{device.device, cuda::Event::Timing::on};
  device.compute.record(begin);
  graph.launch(device.compute);
  device.compute.record(end);
  end.wait();
  return static_cast<double>(elapsed(begin, end).count()) * 1e-3 / calls;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Arrays of @p bytes each, in as many sets as fill @p all bytes, with values that are not zero.
struct Arrays {
  Arrays(cuda::RankDevice& d, std::int64_t bytes, std::int64_t all)
      : device{d}, size{bytes}, sets{static_cast<int>(std::max<std::int64_t>(2, all / bytes))} {
    for (int i = 0; i < 3 * sets; ++i) {
      buffer.emplace_back(d, static_cast<std::size_t>(bytes));
      cuda::fill(d.compute, buffer.back().as<float>(), bytes / 4, 0.5F + static_cast<float>(i));
    }
  }
  template <class T>
  T* at(int call, int array) {
    return buffer[static_cast<std::size_t>(3 * (call % sets) + array)].template as<T>();
  }

  cuda::RankDevice& device;
  std::int64_t size;
  int sets;
  std::vector<cuda::Buffer> buffer;
};

class Bench {
 public:
  Bench(cuda::RankDevice& device, std::int64_t bytes, std::int64_t all, int rounds)
      : device_{device},
        arrays_{device, bytes, all},
        small_{device, std::size_t{1} << 20},
        scratch_{device, std::size_t{32} << 20},
        rounds_{rounds} {}

  /// @param moved  bytes, in multiples of the size of an array
  void kernel(std::string const& name, double moved, std::function<void(int)> const& queue) {
    auto const size = static_cast<std::size_t>(arrays_.size);
    auto const copy = [&](int call) {
      cuda::check(cudaMemcpyAsync(arrays_.at<char>(call, 0), arrays_.at<char>(call, 1), size,
                                  cudaMemcpyDeviceToDevice, device_.compute.get()));
    };
    int const calls = 2 * arrays_.sets;
    queue(0);  // loads the kernels
    cuda::Graph const copying = recorded(device_, calls, copy);
    cuda::Graph const working = recorded(device_, calls, queue);
    std::vector<double> kernels;
    std::vector<double> copies;
    for (int round = -1; round < rounds_; ++round) {  // the first warms up
      double const copied = seconds_of(device_, calls, copying);
      double const worked = seconds_of(device_, calls, working);
      if (round >= 0) {
        copies.push_back(copied);
        kernels.push_back(worked);
      }
    }
    double const bytes = moved * static_cast<double>(arrays_.size);
    double const rate = 2.0 * static_cast<double>(arrays_.size) / median(copies);
    double const seconds = median(kernels);
    best_copy_ = std::max(best_copy_, rate);
    std::printf(
        "%s\n{\"name\": \"%s\", \"bytes\": %.0f, \"seconds\": %.9f, "
        "\"share_of_copy\": %.4f}",
        first_ ? "" : ",", name.c_str(), bytes, seconds, bytes / seconds / rate);
    first_ = false;
  }

  template <class T>
  void kernels_of(std::string const& type) {
    Arrays& a = arrays_;
    cuda::Stream const& s = device_.compute;
    std::int64_t const n = a.size / static_cast<std::int64_t>(sizeof(T));
    int const channels = 256;
    std::int64_t const rows = n / channels;
    std::byte* const scratch = scratch_.data();
    auto* const gain = small_.as<float>();
    auto* const bias = gain + channels;
    auto const saved = BatchNormSaved<float>::at(small_.data() + 4096, channels);
    cuda::fill(s, gain, 2 * channels, 1.0F);
    auto const x = [&](int call) { return static_cast<T const*>(a.at<T>(call, 0)); };
    auto const dy = [&](int call) { return static_cast<T const*>(a.at<T>(call, 1)); };
    auto const y = [&](int call) { return a.at<T>(call, 2); };

    kernel("fill " + type, 1, [&](int c) { cuda::fill(s, y(c), n, T{}); });
    kernel("copy " + type, 2, [&](int c) { cuda::copy(s, x(c), y(c), n); });
    kernel("add " + type, 3, [&](int c) { cuda::add(s, x(c), y(c), n); });
    kernel("relu " + type, 2, [&](int c) { cuda::relu_forward(s, x(c), y(c), n); });
    kernel("relu gradient " + type, 3,
           [&](int c) { cuda::relu_gradient(s, x(c), dy(c), y(c), n); });
    kernel("sum of squares " + type, 1, [&](int c) {
      cuda::sum_of_squares(s, x(c), n, reinterpret_cast<double*>(small_.data()) + 65536, scratch);
    });
    kernel("column sum " + type, 1,
           [&](int c) { cuda::column_sum(s, x(c), rows, channels, bias, false, scratch); });
    kernel("add bias " + type, 2, [&](int c) { cuda::add_bias(s, y(c), bias, rows, channels); });
    kernel("batch norm + relu " + type, 3, [&](int c) {
      cuda::batch_norm_forward(s, x(c), rows, channels, gain, bias, 1e-5F, true, y(c), saved,
                               scratch);
    });
    kernel("batch norm gradient sums " + type, 2, [&](int c) {
      cuda::batch_norm_gradient_sums(s, x(c), dy(c), rows, channels, gain, bias, true, saved,
                                     scratch);
    });
    kernel("batch norm input gradient " + type, 3, [&](int c) {
      cuda::batch_norm_input_gradient(s, x(c), dy(c), rows, channels, gain, bias, true, saved,
                                      y(c));
    });
  }

  /// Kernels on rows of sequences; 1024 numbers are a warp's.
  template <class T>
  void rows_of(std::string const& type) {
    Arrays& a = arrays_;
    cuda::Stream const& s = device_.compute;
    int const columns = 1024;
    std::int64_t const rows = a.size / static_cast<std::int64_t>(sizeof(T)) / columns;
    std::int64_t const n = rows * columns;
    auto* const gain = small_.as<float>();
    auto* const bias = gain + columns;
    constexpr auto layer = cuda::RowNorm::layer;
    std::byte* const scratch = scratch_.data();
    auto const saved =
        cuda::RowNormSaved<float>::at(layer, scratch + (std::size_t{16} << 20), rows);
    cuda::fill(s, gain, 2 * columns, 1.0F);
    auto const x = [&](int call) { return static_cast<T const*>(a.at<T>(call, 0)); };
    auto const dy = [&](int call) { return static_cast<T const*>(a.at<T>(call, 1)); };
    auto const y = [&](int call) { return a.at<T>(call, 2); };

    kernel("layer norm " + type, 2, [&](int c) {
      cuda::row_norm_forward<layer>(s, x(c), rows, columns, gain, bias, 1e-5, y(c), saved);
    });
    kernel("layer norm input gradient " + type, 3, [&](int c) {
      cuda::row_norm_input_gradient<layer>(s, x(c), dy(c), rows, columns, gain, saved, y(c));
    });
    kernel("layer norm weight gradient " + type, 2, [&](int c) {
      cuda::row_norm_weight_gradient<layer>(s, x(c), dy(c), rows, columns, saved, gain, bias, false,
                                            scratch);
    });
    kernel("gelu " + type, 2,
           [&](int c) { cuda::activation_forward<GeluFunction>(s, x(c), y(c), n); });
    kernel("gelu gradient " + type, 3,
           [&](int c) { cuda::activation_gradient<GeluFunction>(s, x(c), dy(c), y(c), n); });
    kernel("softmax " + type, 2,
           [&](int c) { cuda::softmax_forward(s, x(c), rows, columns, y(c)); });
  }

  void casts() {
    std::int64_t const n = arrays_.size / 4;
    kernel("cast fp32 to bf16", 1.5, [&](int c) {
      cuda::cast(device_.compute, static_cast<float const*>(arrays_.at<float>(c, 0)),
                 arrays_.at<BFloat16>(c, 1), n);
    });
  }

  [[nodiscard]] double best_copy() const { return best_copy_; }

 private:
  cuda::RankDevice& device_;
  Arrays arrays_;
  cuda::Buffer small_;
  cuda::Buffer scratch_;
  int rounds_;
  bool first_ = true;
  double best_copy_ = 0.0;
};

/// Operations a second of a square product.
template <class T>
double product(cuda::RankDevice& device, cuda::MatmulMath math, std::int64_t side, int rounds) {
  cuda::Matmul<T> matmul{device.library<cuda::CublasLt>(),
                         {.m = side, .n = side, .k = side, .lda = side, .ldb = side, .ldd = side},
                         math};
  auto const bytes = static_cast<std::size_t>(side * side) * sizeof(T);
  cuda::Buffer const a{device, bytes};
  cuda::Buffer const b{device, bytes};
  cuda::Buffer const d{device, bytes};
  cuda::Buffer const workspace{device, static_cast<std::size_t>(matmul.workspace_bytes())};
  std::vector<T> random(bytes / sizeof(T));  // zeros would be faster
  std::uint32_t state = 1;
  for (T& value : random) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<T>(static_cast<float>(state >> 8U) * 0x1p-24F - 0.5F);
  }
  for (cuda::Buffer const* to : {&a, &b}) {
    cuda::check(cudaMemcpyAsync(to->data(), random.data(), bytes, cudaMemcpyHostToDevice,
                                device.compute.get()));
    device.compute.synchronize();
  }
  auto const multiply = [&](int) {
    matmul.run(device.compute, a.as<T>(), b.as<T>(), d.as<T>(), {}, workspace.data());
  };
  multiply(0);
  cuda::Graph const products = recorded(device, 4, multiply);
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {
    double const seconds = seconds_of(device, 4, products);
    if (round >= 0) {
      times.push_back(seconds);
    }
  }
  return 2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side) /
         median(times);
}

void run(bool small) {
  cuda::RankDevice device{cuda::Device{0}};
  std::int64_t const mebibyte = small ? 1024 : std::int64_t{1} << 20;
  int const rounds = small ? 1 : 11;
  double copy = 0.0;
  std::printf("{\"rows\": [");
  for (std::int64_t const size : {32, 256}) {
    std::string const label = " of " + std::to_string(size) + " MiB";
    Bench bench{device, size * mebibyte, 512 * mebibyte, rounds};
    if (size != 32) {
      std::printf(",");
    }
    bench.kernels_of<float>("fp32" + label);
    bench.kernels_of<BFloat16>("bf16" + label);
    bench.rows_of<float>("fp32" + label);
    bench.rows_of<BFloat16>("bf16" + label);
    bench.casts();
    copy = std::max(copy, bench.best_copy());
  }
  std::int64_t const side = small ? 32 : 8192;
  std::printf("],\n\"copy_bytes_per_s\": %.6e,\n", copy);
  std::printf("\"flops\": {\"bf16\": %.6e, \"tf32\": %.6e, \"fp32\": %.6e}}\n",
              product<BFloat16>(device, cuda::MatmulMath::full, side, rounds),
              product<float>(device, cuda::MatmulMath::tf32, side, rounds),
              product<float>(device, cuda::MatmulMath::full, side, rounds));
}

}  // namespace
}  // namespace tandem::bench

int main(int argc, char** argv) {
  try {
    tandem::bench::run(argc > 1 && std::strcmp(argv[1], "--small") == 0);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
