// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/host/gemm.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include "reference.hpp"
#include "support.hpp"

namespace gemm_test {

using namespace tandem;
using host::Transpose;
using test::Team;

struct Sizes {
  int m, n, k;
};

constexpr Sizes sizes[] = {{1, 1, 1},    {6, 32, 256},  {7, 33, 257}, {5, 31, 1},    {13, 1, 40},
                           {1, 70, 300}, {130, 40, 20}, {17, 530, 9}, {40, 65, 700}, {3, 4, 0}};

template <class T>
void check_product(Sizes const& size, Transpose ta, Transpose tb, bool accumulate) {
  int const m = size.m;
  int const n = size.n;
  int const k = size.k;
  int const lda = (ta == Transpose::yes ? m : k) + 3;
  int const ldb = (tb == Transpose::yes ? k : n) + 2;
  int const ldc = n + 1;
  auto const a = test::random<T>(std::int64_t{lda} * (ta == Transpose::yes ? k : m), 1);
  auto const b = test::random<T>(std::int64_t{ldb} * (tb == Transpose::yes ? n : k), 2);
  auto const old = test::random<T>(std::int64_t{ldc} * m, 3);
  auto const result = test::on_teams([&](Team& team) {
    auto c = accumulate ? old : test::poisoned<T>(std::int64_t{ldc} * m);
    auto scratch = test::poisoned<T>(host::gemm_scratch<T>(team.size()));
    host::gemm(team, ta, tb, m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc, accumulate,
               scratch.data());
    std::vector<T> dense;
    for (int i = 0; i < m; ++i) {
      dense.insert(dense.end(), c.begin() + i * ldc, c.begin() + i * ldc + n);
      auto const behind = static_cast<std::size_t>(i * ldc + n);
      CHECK((accumulate ? c[behind] == old[behind] : c[behind] != c[behind]));  // not written
    }
    return dense;
  });
  auto const at = [](int i) { return static_cast<std::size_t>(i); };
  auto const expected = test::reference_product<T>(
      m, n, k,
      [&](int i, int p) { return a[at(ta == Transpose::yes ? p * lda + i : i * lda + p)]; },
      [&](int p, int j) { return b[at(tb == Transpose::yes ? j * ldb + p : p * ldb + j)]; },
      [&](int i, int j) { return accumulate ? old[at(i * ldc + j)] : T{0}; });
  CHECK(test::within(result, expected.value, expected.bound));
}

TEST_CASE_TEMPLATE("gemm is the product, for all transposes, on any team", T, float, double) {
  for (Sizes const& size : sizes) {
    for (Transpose const ta : {Transpose::no, Transpose::yes}) {
      for (Transpose const tb : {Transpose::no, Transpose::yes}) {
        for (bool const accumulate : {false, true}) {
          CAPTURE(size.m);
          CAPTURE(size.n);
          CAPTURE(size.k);
          CAPTURE(static_cast<int>(ta));
          CAPTURE(static_cast<int>(tb));
          CAPTURE(accumulate);
          check_product<T>(size, ta, tb, accumulate);
        }
      }
    }
  }
}

TEST_CASE_TEMPLATE("gemm: no bit of a row depends on the rows beside it", T, float, double) {
  Team team{2};
  int const n = 37;
  int const k = 300;
  auto const a = test::random<T>(50 * k, 1);
  auto const b = test::random<T>(k * n, 2);
  auto scratch = test::poisoned<T>(host::gemm_scratch<T>(2));
  auto all = test::poisoned<T>(50 * n);
  host::gemm(team, Transpose::no, Transpose::no, 50, n, k, a.data(), k, b.data(), n, all.data(), n,
             false, scratch.data());
  for (int const row : {0, 5, 6, 49}) {
    auto alone = test::poisoned<T>(n);
    host::gemm(team, Transpose::no, Transpose::no, 1, n, k, a.data() + row * k, k, b.data(), n,
               alone.data(), n, false, scratch.data());
    CHECK(test::same_bits(alone, {all.begin() + row * n, all.begin() + (row + 1) * n}));
  }
}

TEST_CASE_TEMPLATE("gemm: a NaN or an infinity stays in its row and column", T, float, double) {
  Team team{1};
  auto a = test::random<T>(7 * 5, 1);
  auto b = test::random<T>(5 * 33, 2);
  a[0] = test::nan<T>;                         // row 0
  b[32] = std::numeric_limits<T>::infinity();  // column 32
  auto c = test::poisoned<T>(7 * 33);
  auto scratch = test::poisoned<T>(host::gemm_scratch<T>(1));
  host::gemm(team, Transpose::no, Transpose::no, 7, 33, 5, a.data(), 5, b.data(), 33, c.data(), 33,
             false, scratch.data());
  for (std::size_t i = 0; i < 7; ++i) {
    for (std::size_t j = 0; j < 33; ++j) {
      CHECK(std::isfinite(c[i * 33 + j]) == (i != 0 && j != 32));
    }
  }
}

}  // namespace gemm_test
