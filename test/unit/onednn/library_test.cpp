// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <cstdint>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <omp.h>

#include <tandem/core/bfloat16.hpp>
#include <tandem/kernels/onednn/gemm.hpp>
#include <tandem/kernels/onednn/gradient.hpp>
#include <tandem/kernels/onednn/library.hpp>
#include <tandem/kernels/onednn/matmul.hpp>
#include <tandem/kernels/onednn/primitive.hpp>
#include <tandem/kernels/onednn/refusal.hpp>
#include <tandem/kernels/onednn/status.hpp>
#include <tandem/kernels/onednn/team_size.hpp>
#include <tandem/runtime/host/buffer.hpp>
#include <tandem/runtime/host/team.hpp>

namespace library_test {

using namespace tandem;
using namespace tandem::onednn;

static_assert(data_type<float> == dnnl_f32);
static_assert(data_type<BFloat16> == dnnl_bf16);
static_assert(!std::is_copy_constructible_v<Library> && std::is_move_constructible_v<Library>);
static_assert(!std::is_copy_constructible_v<Primitive> && std::is_move_constructible_v<Primitive>);

template <class F>
std::string message_of(F const& f) {
  try {
    f();
  } catch (Error const& error) {
    return error.what();
  }
  return "";
}

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a status becomes a sentence with its place") {
  CHECK_NOTHROW(check(dnnl_success));
  CHECK(contains(message_of([] { check(dnnl_out_of_memory); }), "oneDNN: out of memory; use a"));
  CHECK(contains(message_of([] { check(dnnl_unimplemented); }), "not implemented"));
  CHECK(contains(message_of([] { check(dnnl_invalid_arguments); }), "library_test.cpp:"));
  CHECK(contains(message_of([] { check(dnnl_runtime_error); }), "at run time"));
}

TEST_CASE("a refusal names the layer") {
  std::string const fp32 = message_of(
      [] { onednn::detail::refuse(dnnl_unimplemented, "Conv2d of 3 channels", dnnl_f32); });
  CHECK(contains(fp32, "oneDNN has no kernel for Conv2d of 3 channels"));
  std::string const bf16 = message_of(
      [] { onednn::detail::refuse(dnnl_unimplemented, "Conv2d of 3 channels", dnnl_bf16); });
  CHECK(contains(bf16, "Conv2d of 3 channels"));
  CHECK(contains(bf16, "this processor has no AVX-512") == !onednn::detail::has_avx512());
  Library const library;
  MatmulTask task{.m = 2, .n = 4, .k = 3, .result_type = dnnl_s32};
  CHECK(contains(message_of([&] { static_cast<void>(make_matmul(library, task)); }),
                 "oneDNN has no kernel for a matrix product of 2 x 3 by 3 x 4, fp32"));
  task.m = -1;
  CHECK(contains(message_of([&] { static_cast<void>(make_matmul(library, task)); }),
                 "invalid arguments"));
}

TEST_CASE("a product by a kernel of any name, or by oneDNN's first, is the product") {
  Library const library;
  std::vector<float> a(35 * 20);
  std::vector<float> b(20 * 17);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i % 7);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = static_cast<float>(i % 5);
  }
  for (char const* const kernel : {"", "gemm:", "no such kernel"}) {
    Primitive product = make_matmul(library, {.m = 35, .n = 17, .k = 20, .kernel = kernel});
    std::vector<float> c(35 * 17);
    host::Buffer scratch{static_cast<std::size_t>(product.scratch_bytes())};
    product.run(library, scratch.data(), a.data(), b.data(), c.data());
    for (std::size_t i = 0; i < c.size(); ++i) {
      float expected = 0.0F;
      for (std::size_t k = 0; k < 20; ++k) {
        expected += a[i / 17 * 20 + k] * b[k * 17 + i % 17];
      }
      CHECK(c[i] == expected);
    }
  }
}

TEST_CASE("a reorder changes the layout, or adds") {
  Library const library;
  Descriptor const rows = make_descriptor({2, 3}, dnnl_f32, dnnl_ab);
  Descriptor const columns = make_descriptor({2, 3}, dnnl_f32, dnnl_ba);
  CHECK(bytes_of(rows.get()) == 24);
  CHECK(same_layout(rows.get(), copy_of(rows.get()).get()));
  CHECK(!same_layout(rows.get(), columns.get()));
  Primitive made = make_reorder(library, rows.get(), columns.get());
  Primitive copy = std::move(made);
  Primitive add = make_reorder(library, rows.get(), columns.get(), Attributes::Result::added_to);
  alignas(64) std::byte scratch[4096];
  REQUIRE(copy.scratch_bytes() <= 4096);
  REQUIRE(add.scratch_bytes() <= 4096);
  std::vector<float> const from{1, 2, 3, 4, 5, 6};
  std::vector<float> to(6);
  std::vector<float> other(6, 1.0F);
  copy.run(library, scratch, from.data(), to.data());
  CHECK(to == std::vector<float>{1, 4, 2, 5, 3, 6});
  add.run(library, scratch, from.data(), to.data());
  CHECK(to == std::vector<float>{2, 8, 4, 10, 6, 12});
  add.run(library, scratch, from.data(), other.data());  // elsewhere
  CHECK(other == std::vector<float>{2, 5, 3, 6, 4, 7});
}

TEST_CASE("gemm multiplies, transposes and adds") {
  std::vector<float> const a{1, 2, 3, 4, 5, 6};  // (2, 3)
  std::vector<float> const b{1, 0, 0, 1, 1, 1};  // (3, 2)
  std::vector<float> c{10, 10, -1, 10, 10, -1};  // (2, 2) of rows of 3
  gemm(2, 2, 3, {a.data(), 3}, {b.data(), 2}, false, c.data(), 3);
  CHECK(c == std::vector<float>{4, 5, -1, 10, 11, -1});
  gemm(2, 2, 3, {a.data(), 3}, {b.data(), 2}, true, c.data(), 3);
  CHECK(c == std::vector<float>{8, 10, -1, 20, 22, -1});
  std::vector<float> square(4);
  gemm(2, 2, 3, {a.data(), 2, true}, {b.data(), 3, true}, false, square.data(), 2);
  CHECK(square == std::vector<float>{1, 9, 2, 12});
}

TEST_CASE("column sums have the same bits on any team") {
  constexpr std::int64_t rows = 1001;
  constexpr std::int64_t columns = 70;
  constexpr std::int64_t stride = 83;
  std::vector<float> matrix(static_cast<std::size_t>(rows * stride));
  std::vector<double> wanted(columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < stride; ++c) {
      auto const number = static_cast<float>((r * 37 + c * 11) % 101) / 64.0F;
      matrix[static_cast<std::size_t>(r * stride + c)] = number;
      if (c < columns) {
        wanted[static_cast<std::size_t>(c)] += static_cast<double>(number);
      }
    }
  }
  std::vector<std::vector<float>> sums;
  for (int const threads : {1, 2, 3}) {
    host::Team team{threads};
    std::vector<float>& sum = sums.emplace_back(columns, 0.5F);
    column_sum(team, matrix.data(), rows, columns, stride, sum.data(), false);
    column_sum(team, matrix.data(), rows, columns, stride, sum.data(), true);
    for (std::size_t c = 0; c < sum.size(); ++c) {
      CHECK(static_cast<double>(sum[c]) == doctest::Approx(2.0 * wanted[c]).epsilon(1e-6));
    }
  }
  CHECK(sums[0] == sums[1]);
  CHECK(sums[0] == sums[2]);
}

TEST_CASE("TeamSize holds for its thread and ends with its scope") {
  int const before = omp_get_max_threads();
  {
    TeamSize const size{3};
    CHECK(omp_get_max_threads() == 3);
    int elsewhere = 0;
    std::thread{[&] {
      TeamSize const own{2};
      elsewhere = omp_get_max_threads();
    }}.join();
    CHECK(elsewhere == 2);
    CHECK(omp_get_max_threads() == 3);
  }
  CHECK(omp_get_max_threads() == before);
}

}  // namespace library_test

#endif
