// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/precision.hpp>
#include <tandem/kernels/cublaslt/matmul.hpp>
#include <tandem/runtime/cuda/graph.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

#include <cuda/matmul/support.hpp>
#include <device_array.hpp>

namespace tandem {

namespace {

using namespace tandem::test;
using cuda::CublasLt;
using cuda::Matmul;
using cuda::MatmulShape;
using cuda::RankDevice;
using cuda::Transpose;

/// Elements from the first to one past the last of a matrix as it lies.
std::int64_t extent(std::int64_t rows, std::int64_t columns, std::int64_t distance,
                    std::int64_t groups, std::int64_t stride) {
  return rows == 0 || columns == 0 || groups == 0
             ? 0
             : (groups - 1) * stride + (rows - 1) * distance + columns;
}

struct Sizes {
  std::int64_t a, b, d;
};

Sizes sizes_of(MatmulShape const& s) {
  bool const ta = s.transpose_a == Transpose::yes;
  bool const tb = s.transpose_b == Transpose::yes;
  return {extent(ta ? s.k : s.m, ta ? s.m : s.k, s.lda, s.groups, s.stride_a),
          extent(tb ? s.n : s.k, tb ? s.k : s.n, s.ldb, s.groups, s.stride_b),
          extent(s.m, s.n, s.ldd, s.groups, s.stride_d)};
}

/// alpha op(A) op(B) + beta D + bias in double, elsewhere what D held; @p magnitude likewise of
/// |…|.
std::vector<double> product(MatmulShape const& s, std::vector<double> const& a,
                            std::vector<double> const& b, std::vector<double> d, double alpha,
                            double beta, std::vector<double> const& bias) {
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = 0.0;
        for (std::int64_t p = 0; p < s.k; ++p) {
          auto const at_a = static_cast<std::size_t>(
              g * s.stride_a + (s.transpose_a == Transpose::yes ? p * s.lda + i : i * s.lda + p));
          auto const at_b = static_cast<std::size_t>(
              g * s.stride_b + (s.transpose_b == Transpose::yes ? j * s.ldb + p : p * s.ldb + j));
          sum += a[at_a] * b[at_b];
        }
        double& to = d[static_cast<std::size_t>(g * s.stride_d + i * s.ldd + j)];
        to = alpha * sum + (beta == 0.0 ? 0.0 : beta * to) +
             (bias.empty() ? 0.0 : bias[static_cast<std::size_t>(j)]);
      }
    }
  }
  return d;
}

/// The worst error of a product against its bound; D holds numbers at first, or poison for beta 0.
template <class Precision, class Out>
double error_of(RankDevice& device, MatmulShape const& s, double alpha = 1.0, double beta = 0.0,
                std::int64_t limit = cuda::matmul_workspace_limit) {
  using T = typename Precision::Scalar;
  using Scale = typename Matmul<T, Out>::Scale;
  Sizes const sizes = sizes_of(s);
  std::vector<T> const a = numbers<T>(sizes.a, 1);
  std::vector<T> const b = numbers<T>(sizes.b, 2);
  std::vector<Out> const bias = numbers<Out>(s.bias ? s.n : 0, 3);
  std::vector<Out> before = numbers<Out>(sizes.d, 4);
  DeviceArray<T> const on_a{device, a};
  DeviceArray<T> const on_b{device, b};
  DeviceArray<Out> const on_bias{device, bias};
  std::vector<Out> start = before;
  if (beta == 0.0) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      for (std::int64_t i = 0; i < s.m * s.n; ++i) {
        start[static_cast<std::size_t>(g * s.stride_d + i / s.n * s.ldd + i % s.n)] =
            from_double<Out>(NAN);
      }
    }
  }
  DeviceArray<Out> const on_d{device, start};
  Matmul<T, Out> matmul{device.library<CublasLt>(), s, math_of<Precision>, limit};
  CHECK(matmul.workspace_bytes() <= limit);
  DeviceArray<std::byte> const workspace{device, matmul.workspace_bytes()};
  using Compute = typename Matmul<T, Out>::Compute;
  matmul.run(device.compute, on_a.data(), on_b.data(), on_d.data(),
             Scale{static_cast<Compute>(alpha), static_cast<Compute>(beta)}, workspace.data(),
             {.bias = s.bias ? on_bias.data() : nullptr});
  std::vector<Out> const got = on_d.host();
  static_cast<void>(workspace.host());
  std::vector<double> const wanted =
      product(s, in_double(a), in_double(b), in_double(before), alpha, beta, in_double(bias));
  std::vector<double> const magnitude =
      product(s, magnitudes(in_double(a)), magnitudes(in_double(b)), magnitudes(in_double(before)),
              std::fabs(alpha), std::fabs(beta), magnitudes(in_double(bias)));
  // Kernels may add the product to what D held in D's own type.
  std::vector<double> const added =
      beta == 0.0
          ? std::vector<double>{}
          : product(s, in_double(a), in_double(b), std::vector<double>(sizes.d), alpha, 0.0, {});
  return worst(got, wanted, magnitude, product_error<Precision>(s.k), added);
}

/// Dense matrices of one group.
MatmulShape dense(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  return {.transpose_a = ta ? Transpose::yes : Transpose::no,
          .transpose_b = tb ? Transpose::yes : Transpose::no,
          .m = m,
          .n = n,
          .k = k,
          .lda = ta ? m : k,
          .ldb = tb ? k : n,
          .ldd = n};
}

template <class Precision, class Out>
void check_precision(RankDevice& device) {
  struct {
    std::int64_t m, n, k;
  } const shapes[] = {{1, 1, 1},   {5, 7, 3},    {64, 64, 64}, {17, 33, 129},
                      {1, 10, 64}, {16, 8, 700}, {130, 3, 31}, {3, 96, 256}};
  for (auto const& size : shapes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      MatmulShape const s = dense(size.m, size.n, size.k, transposes % 2 != 0, transposes / 2 != 0);
      INFO(to_string(s) << ", transposes " << transposes);
      CHECK(error_of<Precision, Out>(device, s) <= 1.0);
      CHECK(error_of<Precision, Out>(device, s, 1.0, 1.0) <= 1.0);
      CHECK(error_of<Precision, Out>(device, s, -0.5, 2.0) <= 1.0);
    }
  }
}

TEST_CASE("products of all shapes and precisions are those of double, within derived bounds") {
  RankDevice device{cuda::Device{0}};
  SUBCASE("fp32") { check_precision<Fp32, float>(device); }
  SUBCASE("tf32") { check_precision<Tf32, float>(device); }
  SUBCASE("fp64") { check_precision<Fp64, double>(device); }
  SUBCASE("bf16") { check_precision<Bf16, BFloat16>(device); }
  SUBCASE("bf16 to fp32") { check_precision<Bf16, float>(device); }
  SUBCASE("fp16") { check_precision<Fp16, Float16>(device); }
  SUBCASE("fp16 to fp32") { check_precision<Fp16, float>(device); }
}

TEST_CASE("groups and distances: what lies between the rows is neither read nor written") {
  RankDevice device{last_device()};
  for (bool const ta : {false, true}) {
    for (bool const tb : {false, true}) {
      MatmulShape s = dense(6, 10, 20, ta, tb);
      s.groups = 3;
      // A and B: groups side by side in one row; D: one after the other, with gaps
      s.stride_a = s.lda;
      s.lda = s.lda * 3 + 1;
      s.stride_b = s.ldb;
      s.ldb *= 3;
      s.ldd = 13;
      s.stride_d = 6 * 13 + 5;
      CHECK(error_of<Fp32, float>(device, s) <= 1.0);
      CHECK(error_of<Fp64, double>(device, s, 1.0, 1.0) <= 1.0);
      CHECK(error_of<Bf16, float>(device, s) <= 1.0);
    }
  }
}

TEST_CASE("a bias is added to every row") {
  RankDevice device{cuda::Device{0}};
  for (std::int64_t const k : {9, 600}) {
    MatmulShape s = dense(7, 24, k, false, true);
    s.bias = true;
    CHECK(error_of<Fp32, float>(device, s) <= 1.0);
    CHECK(error_of<Tf32, float>(device, s) <= 1.0);
    CHECK(error_of<Bf16, BFloat16>(device, s) <= 1.0);
    CHECK(error_of<Fp16, Float16>(device, s) <= 1.0);
  }
}

TEST_CASE("without a workspace there is an algorithm too") {
  RankDevice device{cuda::Device{0}};
  CHECK(error_of<Fp32, float>(device, dense(16, 8, 700, true, false), 1.0, 1.0, 0) <= 1.0);
  CHECK(error_of<Bf16, float>(device, dense(16, 8, 700, true, false), 1.0, 0.0, 0) <= 1.0);
}

TEST_CASE("nothing to multiply: no rows, no columns, no groups, no depth") {
  RankDevice device{last_device()};
  DeviceArray<float> const none{device, std::vector<float>{}};
  auto const after = [&](MatmulShape const& s, float beta) {
    DeviceArray<float> const d{device, std::vector<float>(12, 5.0F)};
    Matmul<float> matmul{device.library<CublasLt>(), s};
    CHECK(matmul.workspace_bytes() == 0);
    matmul.run(device.compute, none.data(), none.data(), d.data(), {1.0F, beta}, nullptr);
    return d.host();
  };
  std::vector<float> const kept(12, 5.0F);
  CHECK(after(dense(0, 4, 2, false, false), 0.0F) == kept);
  CHECK(after(dense(3, 0, 2, false, false), 0.0F) == kept);
  MatmulShape no_groups = dense(3, 4, 2, false, false);
  no_groups.groups = 0;
  CHECK(after(no_groups, 0.0F) == kept);
  MatmulShape s = dense(3, 4, 0, false, false);
  CHECK(after(s, 1.0F) == kept);
  CHECK(after(s, 0.0F) == std::vector<float>(12, 0.0F));
  s = dense(2, 3, 0, true, false);
  s.ldd = 5;
  CHECK(after(s, 0.0F) == std::vector<float>{0, 0, 0, 5, 5, 0, 0, 0, 5, 5, 5, 5});
  s = dense(1, 2, 0, false, true);
  s.groups = 3;
  s.stride_d = 4;
  CHECK(after(s, 0.0F) == std::vector<float>{0, 0, 5, 5, 0, 0, 5, 5, 0, 0, 5, 5});
}

TEST_CASE("Fp32 does not round its inputs as Tf32 does") {
  RankDevice device{cuda::Device{0}};
  float const fine = 1.0F + 0x1p-20F;
  DeviceArray<float> const a{device, std::vector<float>(64 * 64, fine)};
  std::vector<float> identity(64 * 64, 0.0F);
  for (std::size_t i = 0; i < 64; ++i) {
    identity[i * 65] = 1.0F;
  }
  DeviceArray<float> const b{device, identity};
  auto const first = [&](cuda::MatmulMath math) {
    DeviceArray<float> const d{device, 64 * 64};
    Matmul<float> matmul{device.library<CublasLt>(), dense(64, 64, 64, false, false), math};
    DeviceArray<std::byte> const workspace{device, matmul.workspace_bytes()};
    matmul.run(device.compute, a.data(), b.data(), d.data(), {}, workspace.data());
    return d.host().front();
  };
  CHECK(first(cuda::MatmulMath::full) == fine);
  CHECK(std::fabs(first(cuda::MatmulMath::tf32) - 1.0F) < 0x1p-9F);
}

TEST_CASE("a product repeats its bits, also when it is captured and launched") {
  RankDevice device{last_device()};
  MatmulShape const s = dense(24, 16, 4096, true, false);
  DeviceArray<BFloat16> const a{device, numbers<BFloat16>(24 * 4096, 1)};
  DeviceArray<BFloat16> const b{device, numbers<BFloat16>(4096 * 16, 2)};
  DeviceArray<float> const d{device, std::vector<float>(24 * 16, 0.0F)};
  Matmul<BFloat16, float> matmul{device.library<CublasLt>(), s};
  DeviceArray<std::byte> const workspace{device, matmul.workspace_bytes()};
  auto const run = [&](float beta) {
    matmul.run(device.compute, a.data(), b.data(), d.data(), {1.0F, beta}, workspace.data());
  };
  run(0.0F);
  std::vector<float> const once = d.host();
  run(0.0F);
  CHECK(d.host() == once);
  cuda::Capture capture{device.compute};
  run(0.0F);
  run(1.0F);
  cuda::Graph const graph = capture.finish();
  graph.launch(device.compute);
  std::vector<float> twice = once;
  for (float& value : twice) {
    value += value;
  }
  CHECK(d.host() == twice);
  graph.launch(device.compute);
  CHECK(d.host() == twice);
}

TEST_CASE("shapes are checked, and messages say what to do") {
  RankDevice device{cuda::Device{0}};
  auto const make = [&](MatmulShape const& s) {
    Matmul<float> const matmul{device.library<CublasLt>(), s};
  };
  MatmulShape s = dense(3, 4, 5, false, false);
  s.lda = 4;
  CHECK_THROWS_WITH_AS(make(s), doctest::Contains("distance between rows"), ContractError);
  s = dense(3, 4, 5, false, false);
  s.bias = true;
  s.groups = 2;
  CHECK_THROWS_WITH_AS(make(s), doctest::Contains("a bias wants one group"), ContractError);
  CHECK_THROWS_WITH_AS(make(dense(-1, 4, 5, false, false)), doctest::Contains("0 or more"),
                       ContractError);
  CHECK_THROWS_WITH_AS(cuda::check(CUBLAS_STATUS_NOT_SUPPORTED), doctest::Contains("train in Fp32"),
                       cuda::CublasLtError);
  CHECK_THROWS_WITH_AS(cuda::check(CUBLAS_STATUS_EXECUTION_FAILED),
                       doctest::Contains("compute-sanitizer"), cuda::CublasLtError);
  CHECK(to_string(dense(3, 4, 5, false, false)) == "3 x 4 x 5");
}

TEST_CASE("alignment_of is the largest power of two up to 16") {
  CHECK(cuda::alignment_of(0) == 16);
  CHECK(cuda::alignment_of(2) == 2);
  CHECK(cuda::alignment_of(24) == 8);
  CHECK(cuda::alignment_of(4096) == 16);
  CHECK(cuda::alignment_of(7) == 1);
}

}  // namespace

}  // namespace tandem
