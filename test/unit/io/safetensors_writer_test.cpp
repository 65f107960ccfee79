// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/reader.hpp>
#include <tandem/io/safetensors/writer.hpp>

#include "temporary_folder.hpp"

namespace tandem {
namespace safetensors_writer_test {

using namespace std::string_literals;

template <class Call>
bool breaks_contract(Call const& call, std::string const& sentence) {
  std::string const what = test::message<ContractError>(call);
  CAPTURE(what);
  return what.starts_with(sentence);
}

std::string header(std::vector<TensorSpec> const& tensors,
                   SafetensorsMetadata const& metadata = {}) {
  return detail::write_safetensors_header(tensors, metadata);
}

TEST_CASE("what Python wrote is written again byte for byte") {
  test::TemporaryFolder const folder;
  for (std::string const name : {"mixed", "edge", "empty"}) {
    CAPTURE(name);
    std::string const golden = TANDEM_TEST_DATA "/safetensors/" + name + ".safetensors";
    auto const file = Safetensors::read(golden);
    write_safetensors(folder.file(name), file.tensors(), file.metadata());
    CHECK(test::content(folder.file(name)) == test::content(golden));
  }
  CHECK(folder.entries() == 3);
}

TEST_CASE("tensors and metadata keep their order") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  std::array<float, 2> const a{1.5F, -2.0F};
  std::array<std::uint8_t, 3> const b{7, 8, 9};
  std::vector<TensorView> const tensors{
      {"z", Dtype::U8, {3}, std::as_bytes(std::span{b})},
      {"nothing", Dtype::F64, {0, 5}, {}},
      {"a", Dtype::F32, {2, 1}, std::as_bytes(std::span{a})},
  };
  SafetensorsMetadata const metadata{{"z", "1"}, {"a", "2"}};
  write_safetensors(path, tensors, metadata);

  auto const file = Safetensors::read(path);
  CHECK(file.metadata() == metadata);
  REQUIRE(file.tensors().size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(file.tensors()[i].name == tensors[i].name);
    CHECK(file.tensors()[i].dtype == tensors[i].dtype);
    CHECK(file.tensors()[i].shape == tensors[i].shape);
    CHECK(std::vector(file.tensors()[i].data.begin(), file.tensors()[i].data.end()) ==
          std::vector(tensors[i].data.begin(), tensors[i].data.end()));
  }
}

TEST_CASE("the header's length is a multiple of 8 and counts the blanks") {
  for (std::size_t letters = 0; letters < 16; ++letters) {
    std::string const text = header({{std::string(letters, 'n'), Dtype::U8, {1}}});
    CHECK(text.size() % 8 == 0);
    CHECK(static_cast<unsigned char>(text[0]) == text.size() - 8);
    CHECK(text[8] == '{');
    CHECK(test::contains(text.substr(text.size() - 8), "}"));  // fewer than 8 blanks
  }
}

TEST_CASE("SafetensorsWriter takes a tensor in pieces") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  SafetensorsWriter writer{path,
                           {{"none", Dtype::F32, {0}},
                            {"a", Dtype::U8, {4}},
                            {"also none", Dtype::F32, {0}},
                            {"b", Dtype::U16, {}},
                            {"last", Dtype::F32, {2, 0}}},
                           {{"k", "v"}}};
  writer.write(test::bytes("x"));
  writer.write({});
  writer.write(test::bytes("yz!"));
  writer.write(test::bytes("BB"));
  CHECK(folder.entries() == 1);  // the temporary file
  writer.finish();
  CHECK(folder.entries() == 1);  // the file

  auto const file = Safetensors::read(path);
  CHECK(file.tensors().size() == 5);
  CHECK(std::to_integer<char>(file.at("a").data[3]) == '!');
  CHECK(std::to_integer<char>(file.at("b").data[0]) == 'B');
}

TEST_CASE("SafetensorsWriter refuses data of the wrong length; the old file stays") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  test::put(path, "old");
  auto const too_many = "SafetensorsWriter: more bytes than the current tensor's shape has"s;
  {
    SafetensorsWriter writer{path, {{"a", Dtype::U8, {2}}, {"b", Dtype::U8, {2}}}};
    CHECK(breaks_contract([&] { writer.write(test::bytes("xyz")); }, too_many));  // crosses into b
    writer.write(test::bytes("x"));
    CHECK(breaks_contract([&] { writer.write(test::bytes("yz")); }, too_many));
    writer.write(test::bytes("y"));
    auto const early = "SafetensorsWriter: finish() before every tensor was written whole"s;
    CHECK(breaks_contract([&] { writer.finish(); }, early));
    writer.write(test::bytes("z"));
    CHECK(breaks_contract([&] { writer.finish(); }, early));
    writer.write(test::bytes("!"));
    CHECK(breaks_contract([&] { writer.write(test::bytes("?")); }, too_many));
    CHECK(test::content(path) == "old");
  }
  CHECK(test::content(path) == "old");
  CHECK(folder.entries() == 1);
}

TEST_CASE("write_safetensors refuses data that does not fit the shape, before it makes a file") {
  test::TemporaryFolder const folder;
  for (std::int64_t const extent : {0, 1, 3}) {
    std::vector<TensorView> const tensors{{"a", Dtype::U8, {extent}, test::bytes("xy")}};
    CHECK(breaks_contract(
        [&] { write_safetensors(folder.file("x"), tensors); },
        "write_safetensors: the data of a tensor must be as long as its dtype and shape say"));
  }
  CHECK(folder.entries() == 0);
}

TEST_CASE("headers that the format does not allow") {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  auto const size = "safetensors: a negative extent, or more than 2^63 - 1 bytes of data"s;
  auto const utf8 = "safetensors: every name and metadata key must be UTF-8"s;
  CHECK(breaks_contract([&] { header({{"a", Dtype::U8, {-1}}}); }, size));
  CHECK(breaks_contract([&] { header({{"a", Dtype::U16, {largest}}}); }, size));
  CHECK(breaks_contract(
      [&] {
        header({{"a", Dtype::U8, {largest}}, {"b", Dtype::U8, {1}}});
      },
      size));
  CHECK_NOTHROW(header({{"a", Dtype::U8, {largest - 1}}, {"b", Dtype::U8, {1}}}));
  CHECK(breaks_contract([&] { header({{"\xFF", Dtype::U8, {}}}); }, utf8));
  CHECK(breaks_contract([&] { header({}, {{"\xFF", ""}}); }, utf8));
  CHECK(breaks_contract(
      [&] {
        header({}, {{"", "\xFF"}});
      },
      "safetensors: every metadata value must be UTF-8"));
  CHECK(breaks_contract(
      [&] {
        header({{"__metadata__", Dtype::U8, {}}});
      },
      "safetensors: no tensor may be named __metadata__"));
  CHECK(breaks_contract(
      [&] {
        header({{"a", Dtype::OTHER, {}}});
      },
      "safetensors: no tensor of the type OTHER can be written"));
  CHECK(breaks_contract(
      [&] {
        header({{"a", Dtype::U8, {}}, {"b", Dtype::U8, {}}, {"a", Dtype::U8, {}}});
      },
      "safetensors: two tensors have the same name"));
  CHECK(breaks_contract(
      [&] {
        header({}, {{"k", "1"}, {"k", "2"}});
      },
      "safetensors: a metadata key occurs twice"));
  CHECK_NOTHROW(header({{"k", Dtype::U8, {}}}, {{"k", "1"}}));
  std::vector<TensorSpec> const none;
  std::size_t const size_of_json = header(none, {{"k", "v"}}).size() - 8;
  CHECK_NOTHROW(detail::write_safetensors_header(none, {{"k", "v"}}, size_of_json));
  CHECK(breaks_contract(
      [&] {
        detail::write_safetensors_header(none, {{"k", "v"}}, size_of_json - 1);
      },
      "safetensors: the header is longer than 100,000,000 bytes"));
}

}  // namespace safetensors_writer_test
}  // namespace tandem
