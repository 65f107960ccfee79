// SPDX-License-Identifier: Apache-2.0
// SHA-256 and HMAC against the numbers of FIPS 180-4 and RFC 4231, and at each length of a block.

#include <tandem/core/sha256.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>

namespace tandem {
namespace sha256_test {

std::span<std::byte const> bytes(std::string_view text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

std::string hex(detail::Digest const& digest) {
  std::string text;
  for (std::byte const byte : digest) {
    text += "0123456789abcdef"[static_cast<unsigned>(byte) / 16U];
    text += "0123456789abcdef"[static_cast<unsigned>(byte) % 16U];
  }
  return text;
}

std::string sha(std::string_view text) {
  detail::Sha256 hash;
  hash.add(bytes(text));
  return hex(hash.finish());
}

std::string hmac(std::string_view key, std::string_view text) {
  return hex(detail::Hmac{bytes(key)}.add(bytes(text)).finish());
}

TEST_CASE("SHA-256 of the standard's texts, and around the end of a block") {
  CHECK(sha("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha(std::string(55, 'a')) ==
        "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  CHECK(sha(std::string(56, 'a')) ==
        "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
  CHECK(sha(std::string(64, 'a')) ==
        "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
  CHECK(sha(std::string(100000, 'a')) ==
        "6d1cf22d7cc09b085dfc25ee1a1f3ae0265804c607bc2074ad253bcc82fd81ee");
}

TEST_CASE("HMAC of RFC 4231's texts, with keys shorter and longer than a block") {
  CHECK(hmac(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("digests are the same only if all their bits are") {
  detail::Digest const a{};
  CHECK(detail::same_digest(a, a));
  for (std::size_t bit = 0; bit < 256; ++bit) {
    detail::Digest b{};
    b[bit / 8] = std::byte{static_cast<unsigned char>(1U << (bit % 8))};
    CHECK_FALSE(detail::same_digest(a, b));
  }
}

}  // namespace sha256_test
}  // namespace tandem
