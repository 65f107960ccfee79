// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

#include <tandem/kernels/channels_last/layout.hpp>

#include <doctest/doctest.h>

#include <tandem/ops/onednn/flatten.hpp>
#include <tandem/ops/verbs.hpp>

#include "channels_last.hpp"

namespace layout_test {

using namespace tandem;
using test::Team;

constexpr int channel_counts[] = {1, 2, 3, 16, 17, 24, 100};
constexpr int pixel_counts[] = {1, 2, 9, 16, 49, 64};

template <class T>
std::vector<T> typed(std::vector<float> const& x) {
  std::vector<T> y;
  for (float const value : x) {
    y.push_back(static_cast<T>(value));
  }
  return y;
}

/// NaN-like numbers that no result has.
template <class T>
std::vector<T> untouched(std::size_t n) {
  return std::vector<T>(n, static_cast<T>(-7.125F));
}

template <class From, class To>
void layouts_agree(int batch, int channels, int pixels) {
  auto const n = static_cast<std::size_t>(batch * channels * pixels);
  auto const x = typed<From>(test::random<float>(static_cast<std::int64_t>(n), 1));
  std::vector<To> expected(n), back(n);
  std::size_t i = 0;
  for (int s = 0; s < batch; ++s) {
    for (int c = 0; c < channels; ++c) {
      for (int p = 0; p < pixels; ++p, ++i) {
        auto const at = static_cast<std::size_t>((s * pixels + p) * channels + c);
        expected[at] = static_cast<To>(static_cast<float>(x[i]));
        back[i] = static_cast<To>(static_cast<float>(x[at]));
      }
    }
  }
  auto const last = test::on_teams([&](Team& team) {
    auto y = untouched<To>(n + 16);
    host::channels_last::to_channels_last(team, batch, channels, pixels, x.data(), y.data());
    return y;
  });
  auto const first = test::on_teams([&](Team& team) {
    auto y = untouched<To>(n + 16);
    host::channels_last::from_channels_last(team, batch, channels, pixels, x.data(), y.data());
    return y;
  });
  auto const rest = untouched<To>(16);
  expected.insert(expected.end(), rest.begin(), rest.end());
  back.insert(back.end(), rest.begin(), rest.end());
  CHECK(test::same_bits(last, expected));
  CHECK(test::same_bits(first, back));
}

TEST_CASE("layouts: each element moves to its place, from float or BFloat16 to either") {
  for (int const channels : channel_counts) {
    for (int const pixels : pixel_counts) {
      layouts_agree<float, float>(2, channels, pixels);
      layouts_agree<float, BFloat16>(2, channels, pixels);
      layouts_agree<BFloat16, float>(2, channels, pixels);
      layouts_agree<BFloat16, BFloat16>(2, channels, pixels);
    }
  }
  layouts_agree<float, float>(1, 3, 7);
  layouts_agree<float, BFloat16>(5, 3, 1024);
}

TEST_CASE_TEMPLATE("Flatten gives a vector in the order (C, H, W)", Precision, Fp32, Bf16) {
  using T = typename Precision::Scalar;
  for (Shape const in : {image_shape(3, 5, 4), image_shape(24, 2, 3), image_shape(1, 4, 4)}) {
    test::Case const c{.inputs = {in}, .out = Flatten::output(in)};
    auto const result = test::on_threads<Flatten, Precision>(c);
    CHECK(test::same_bits(result.y, c.x<T>(0)));
    CHECK(test::same_bits(result.dx, c.dy<T>()));
  }
}

template <class E>
void sums_agree() {
  using V = Verbs<BasicHost<OneDnn, Bf16>>;
  for (std::int64_t const n : {1, 15, 16, 17, 100, 5000}) {
    std::vector<std::vector<E>> in;
    std::vector<E const*> pointers;
    for (std::uint64_t j = 0; j < 6; ++j) {
      in.push_back(typed<E>(test::random<float>(n, j)));
    }
    for (auto const& x : in) {
      pointers.push_back(x.data());
    }
    for (int k = 0; k <= 6; ++k) {
      std::vector<E> expected;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        float total = k > 0 ? static_cast<float>(in[0][i]) : 0.0F;
        for (std::size_t j = 1; j < static_cast<std::size_t>(k); ++j) {
          total += static_cast<float>(in[j][i]);
        }
        expected.push_back(static_cast<E>(total));
      }
      auto const rest = untouched<E>(16);
      expected.insert(expected.end(), rest.begin(), rest.end());
      for (int threads = 1; threads <= 3; ++threads) {
        host::Device device{threads};
        auto y = untouched<E>(static_cast<std::size_t>(n) + 16);
        V::sum(device, pointers.data(), k, y.data(), n);
        CHECK(test::same_bits(y, expected));
        if (k == 2) {
          auto second = in[1];
          V::add(device, in[0].data(), second.data(), n);
          second.insert(second.end(), rest.begin(), rest.end());
          CHECK(test::same_bits(second, expected));
        }
      }
    }
    host::Device device{2};
    auto y = untouched<E>(static_cast<std::size_t>(n));
    V::copy(device, in[0].data(), y.data(), n);
    CHECK(test::same_bits(y, in[0]));
    V::zero(device, y.data(), n);
    CHECK(test::same_bits(y, std::vector<E>(static_cast<std::size_t>(n))));
  }
}

TEST_CASE("verbs: arrays of parameters and of activations, the latter added in float") {
  sums_agree<float>();
  sums_agree<BFloat16>();
}

TEST_CASE("verbs: squares of parameters where activations are BFloat16") {
  host::Device device{2};
  std::vector<float> const x{3, 4, 12};
  CHECK(Verbs<BasicHost<OneDnn, Bf16>>::sum_of_squares(device, x.data(), 3) == 169);
}

}  // namespace layout_test

#endif
