// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/channels_last/random_words.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/channels_last/dropout.hpp>

namespace random_words_test {

using namespace tandem;

TEST_CASE("sixteen counters at once give the words of philox, also where they overflow") {
  std::uint64_t const seed = 0x123456789ABCDEF0U;
  std::uint64_t const low = 0x9876543210U;
  for (std::uint64_t const high :
       {std::uint64_t{0}, std::uint64_t{0xFFFFFFF8U}, ~std::uint64_t{5}, std::uint64_t{7} << 32}) {
    std::uint32_t words[64];
    host::channels_last::random_words(seed, RandomUse::dropout, low, high, words);
    for (std::uint64_t i = 0; i < 64; ++i) {
      CHECK(words[i] == philox(seed, RandomUse::dropout, low, high + i / 4).word[i % 4]);
    }
  }
}

TEST_CASE("the words of any run of a sample's elements are those of each") {
  DropoutPlace const place{.seed = 7, .step = 5, .layer = 3, .first_sample = 11};
  for (std::int64_t const first : {0, 1, 6, 63, 64, 1003}) {
    for (std::int64_t const count : {0, 1, 5, 15, 16, 64, 77, 200}) {
      std::vector<std::uint32_t> words(static_cast<std::size_t>(count) + 1, 99);
      host::channels_last::detail::dropout_row(place, 2, first, count, words.data());
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t const element = first + i;
        CHECK(words[static_cast<std::size_t>(i)] ==
              dropout_words(place, 2, element / 4).word[element % 4]);
      }
      CHECK(words.back() == 99);
    }
  }
}

}  // namespace random_words_test
