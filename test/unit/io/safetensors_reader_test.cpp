// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/reader.hpp>

#include "temporary_folder.hpp"

namespace tandem {
namespace safetensors_reader_test {

using namespace std::string_literals;

std::string length(std::uint64_t n) {
  std::string out;
  for (int byte = 0; byte < 8; ++byte) {
    out += static_cast<char>((n >> (8 * byte)) & 0xFF);
  }
  return out;
}

std::string file(std::string const& header, std::string const& data = "") {
  return length(header.size()) + header + data;
}

/// The header's text for a tensor of bytes at [begin, end).
std::string tensor(std::string const& name, int begin, int end) {
  return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) +
         R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

Safetensors parse(std::string_view text) { return Safetensors::parse(test::bytes(text), "file"); }

std::string fault(std::string const& text) {
  std::string const what = test::message<FileError>([&] { static_cast<void>(parse(text)); });
  CHECK(what.starts_with("'file': "));
  return what.substr(what.find(": ") + 2);
}

template <class T>
std::vector<T> numbers(TensorView const& view) {
  CHECK(view.dtype == dtype_of<T>);
  std::vector<T> out(view.data.size() / sizeof(T));
  std::memcpy(out.data(), view.data.data(), view.data.size());
  return out;
}

std::string golden(std::string const& name) {
  return TANDEM_TEST_DATA "/safetensors/" + name + ".safetensors";
}

TEST_CASE("a file of Python's with every type that numpy has") {
  auto const mixed = Safetensors::read(golden("mixed"));
  REQUIRE(mixed.tensors().size() == 13);
  CHECK(mixed.tensors()[0].name == "t.u8");
  CHECK(mixed.metadata() == SafetensorsMetadata{{"step", "17"}});
  CHECK(numbers<double>(mixed.at("t.f8")) == std::vector<double>{1, 2, 3});
  CHECK(numbers<float>(mixed.at("t.f4")) == std::vector<float>{1, 2, 3});
  CHECK(numbers<std::int64_t>(mixed.at("t.i8")) == std::vector<std::int64_t>{1, 2, 3});
  CHECK(numbers<std::int32_t>(mixed.at("t.i4")) == std::vector<std::int32_t>{1, 2, 3});
  CHECK(numbers<std::int16_t>(mixed.at("t.i2")) == std::vector<std::int16_t>{1, 2, 3});
  CHECK(numbers<std::int8_t>(mixed.at("t.i1")) == std::vector<std::int8_t>{1, 2, 3});
  CHECK(numbers<std::uint64_t>(mixed.at("t.u8")) == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(numbers<std::uint32_t>(mixed.at("t.u4")) == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(numbers<std::uint16_t>(mixed.at("t.u2")) == std::vector<std::uint16_t>{1, 2, 3});
  CHECK(numbers<std::uint8_t>(mixed.at("t.u1")) == std::vector<std::uint8_t>{1, 2, 3});
  CHECK(mixed.at("t.f2").dtype == Dtype::F16);
  CHECK(mixed.at("t.bool").dtype == Dtype::BOOL);
  CHECK(mixed.at("matrix").shape == std::vector<std::int64_t>{2, 3});
  CHECK(numbers<float>(mixed.at("matrix")) ==
        std::vector<float>{0.0F, 0.25F, 0.5F, 0.75F, 1.0F, 1.25F});
}

TEST_CASE("a file of Python's with scalars, empty tensors and names to escape") {
  auto const edge = Safetensors::read(golden("edge"));
  REQUIRE(edge.tensors().size() == 7);
  CHECK(edge.metadata() == SafetensorsMetadata{{"quoted \"key\"", "line\nline \x01"}});
  CHECK(numbers<float>(edge.at("quote\" back\\slash /")) == std::vector<float>{1.5F});
  CHECK(numbers<float>(edge.at("tab\t newline\n bell\a")) == std::vector<float>{2.5F});
  CHECK(numbers<float>(edge.at("gr\xC3\xB6\xC3\x9F"
                               "e \xE2\x88\x91 \xF0\x9F\x99\x82")) == std::vector<float>{3.5F});
  CHECK(numbers<float>(edge.at("")) == std::vector<float>{4.5F});
  CHECK(edge.at("").shape.empty());
  CHECK(edge.at("empty").shape == std::vector<std::int64_t>{3, 0, 2});
  CHECK(edge.at("empty").data.empty());
  CHECK(edge.at("bf16").dtype == Dtype::BF16);
  CHECK(edge.at("e4m3").dtype == Dtype::F8_E4M3);
  CHECK(edge.at("e4m3").shape == std::vector<std::int64_t>{3, 1});
}

TEST_CASE("a file without tensors") {
  auto const empty = Safetensors::read(golden("empty"));
  CHECK(empty.tensors().empty());
  CHECK(empty.metadata().empty());
  CHECK(empty.find("") == nullptr);
  CHECK(parse(file("{}")).tensors().empty());
}

TEST_CASE("find, at and find_metadata") {
  std::string const text = file(
      "{" + tensor("b", 0, 1) + "," + tensor("a", 1, 3) + R"(,"__metadata__":{"k":"v"}})", "xyz");
  auto const parsed = parse(text);
  CHECK(parsed.tensors()[0].name == "b");  // in the order of the header
  CHECK(parsed.find("a") == &parsed.tensors()[1]);
  CHECK(parsed.find("b") == &parsed.tensors()[0]);
  CHECK(parsed.find("") == nullptr);
  CHECK(parsed.find("aa") == nullptr);
  CHECK(parsed.find("c") == nullptr);
  CHECK(parsed.find("__metadata__") == nullptr);
  REQUIRE(parsed.find_metadata("k") != nullptr);
  CHECK(*parsed.find_metadata("k") == "v");
  CHECK(parsed.find_metadata("v") == nullptr);
  CHECK(test::message<FileError>([&] { static_cast<void>(parsed.at("c")); }) ==
        R"('file': there is no tensor "c" among the 2 of this file)");
}

TEST_CASE("the views are of the bytes that were given, and survive a move") {
  std::string const text = file("{" + tensor("b", 1, 3) + "," + tensor("a", 0, 1) + "}", "xyz");
  Safetensors first = parse(text);
  Safetensors const second = std::move(first);
  auto const* const last = reinterpret_cast<std::byte const*>(text.data() + text.size());
  CHECK(second.at("a").data.data() == last - 3);
  CHECK(second.at("b").data.data() == last - 2);
  CHECK(second.at("b").data.size() == 2);

  Safetensors third = Safetensors::read(golden("mixed"));
  third = Safetensors::read(golden("edge"));
  Safetensors const fourth = std::move(third);
  CHECK(numbers<float>(fourth.at("")) == std::vector<float>{4.5F});
}

TEST_CASE("files that are cut off, and lengths that are no lengths") {
  CHECK(fault("") == "the file has 0 bytes; a safetensors file begins with an 8-byte length");
  CHECK(fault(length(2).substr(0, 7)) ==
        "the file has 7 bytes; a safetensors file begins with an 8-byte length");
  CHECK(fault(length(2)) == "the header claims 2 bytes, but only 0 follow; the file is cut off");
  CHECK(fault(length(3) + "{}") ==
        "the header claims 3 bytes, but only 2 follow; the file is cut off");
  CHECK(fault(length(100'000'000) + "{}") ==
        "the header claims 100000000 bytes, but only 2 follow; the file is cut off");
  CHECK(fault(length(100'000'001) + "{}") ==
        "the header claims 100000001 bytes, more than the 100,000,000 that are allowed; it is "
        "probably not a safetensors file");
  CHECK(
      test::contains(fault(length(~std::uint64_t{0}) + "{}"), "claims 18446744073709551615 bytes"));
  CHECK(fault(length(0)) == "the header is wrong at byte 8: expected '{' as the first character");
}

TEST_CASE("tensors must cover the data once") {
  CHECK(
      fault(file("{" + tensor("a", 0, 3) + "}", "xy")) ==
      R"(tensor "a" ends at byte 3 of the data, which has only 2; the file is cut off or damaged)");
  CHECK(
      fault(file("{" + tensor("a", 1, 2) + "}", "xy")) ==
      R"(tensor "a" begins at byte 1 of the data, but leaves a hole after the tensors that end at )"
      "byte 0");
  CHECK(
      fault(file("{" + tensor("b", 3, 4) + "," + tensor("a", 0, 2) + "}", "wxyz")) ==
      R"(tensor "b" begins at byte 3 of the data, but leaves a hole after the tensors that end at )"
      "byte 2");
  CHECK(fault(file("{" + tensor("b", 1, 4) + "," + tensor("a", 0, 2) + "}", "wxyz")) ==
        R"(tensor "b" begins at byte 1 of the data, but overlaps the tensors that end at byte 2)");
  CHECK(
      fault(file("{" + tensor("b", 0, 2) + "," + tensor("a", 0, 2) + "}", "xy"))
          .ends_with("begins at byte 0 of the data, but overlaps the tensors that end at byte 2"));
  CHECK(fault(file("{" + tensor("a", 0, 2) + "}", "xyz")) ==
        "the file goes on for 1 bytes after the last tensor");
  CHECK(fault(file("{}", "x")) == "the file goes on for 1 bytes after the last tensor");
}

TEST_CASE("a tensor of a type that is not known does no harm to the others") {
  std::string const other = R"("o":{"dtype":"F4\n","shape":[4],"data_offsets":[1,3]})";
  std::string const header = "{" + tensor("b", 0, 1) + "," + other + "," + tensor("a", 3, 4) + "}";
  std::string const text = file(header, "wxyz");
  auto const parsed = parse(text);
  REQUIRE(parsed.tensors().size() == 3);
  CHECK(numbers<std::uint8_t>(parsed.at("a")) == std::vector<std::uint8_t>{'z'});
  CHECK(parsed.at("a").type() == "U8");
  CHECK(parsed.at("o").dtype == Dtype::OTHER);
  CHECK(parsed.at("o").type() == R"(F4\x0A)");
  CHECK(parsed.at("o").shape == std::vector<std::int64_t>{4});
  CHECK(parsed.at("o").data.size() == 2);
  CHECK(fault(file(header, "wxy")).starts_with(R"(tensor "a" ends at byte 4)"));
}

TEST_CASE("empty tensors may lie at any border, and only there") {
  std::string const text =
      file("{" + tensor("d", 2, 2) + "," + tensor("c", 1, 1) + "," + tensor("b", 1, 2) + "," +
               tensor("a", 0, 1) + "," + tensor("e", 0, 0) + "," + tensor("f", 0, 0) + "}",
           "xy");
  CHECK(parse(text).tensors().size() == 6);
  CHECK(fault(file("{" + tensor("a", 0, 2) + "," + tensor("b", 1, 1) + "}", "xy")) ==
        R"(tensor "b" begins at byte 1 of the data, but overlaps the tensors that end at byte 2)");
  CHECK(
      fault(file("{" + tensor("a", 1, 1) + "}")) ==
      R"(tensor "a" ends at byte 1 of the data, which has only 0; the file is cut off or damaged)");
}

TEST_CASE("every file of Python's that is cut short or longer is refused") {
  for (char const* const name : {"mixed", "edge", "empty"}) {
    std::string const whole = test::content(golden(name));
    CHECK_NOTHROW(static_cast<void>(parse(whole)));
    CHECK_THROWS_AS(static_cast<void>(parse(whole + "x")), FileError);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      CHECK_THROWS_AS(static_cast<void>(parse(std::string_view{whole}.substr(0, size))), FileError);
    }
  }
}

TEST_CASE("read names the file in its errors") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("bad");
  test::put(path, "short");
  CHECK(test::message<FileError>([&] { static_cast<void>(Safetensors::read(path)); }) ==
        "'" + path + "': the file has 5 bytes; a safetensors file begins with an 8-byte length");
}

}  // namespace safetensors_reader_test
}  // namespace tandem
