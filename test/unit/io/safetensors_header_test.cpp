// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/header.hpp>

#include "temporary_folder.hpp"

namespace tandem::detail {
namespace safetensors_header_test {

using namespace std::string_literals;

/// A header with one tensor "a" of these fields.
std::string tensor(std::string const& fields) { return R"({"a":{)" + fields + "}}"; }

std::string fault(std::string_view text) {
  std::string const what = test::message<FileError>(
      [&] { static_cast<void>(read_safetensors_header(text, "file", 8)); });
  std::string const prefix = "'file': ";
  CHECK(what.starts_with(prefix));
  return what.starts_with(prefix) ? what.substr(prefix.size()) : what;
}

/// The same for an error with a place, whose byte is checked in json_test.cpp.
std::string fault_at_byte(std::string_view text) {
  std::string const what = fault(text);
  std::size_t const colon = what.find(": ");
  CHECK(what.starts_with("the header is wrong at byte "));
  return colon == std::string::npos ? what : what.substr(colon + 2);
}

TEST_CASE("a header with all there is") {
  auto const header = read_safetensors_header(
      R"({"b":{"data_offsets":[8,12],"shape":[],"dtype":"I32"},"__metadata__":{"x":"1","":"\n"},)"
      R"("\u00e9":{"dtype":"F16","shape":[2,2],"data_offsets":[0,8]}}   )",
      "file", 8);
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].spec.name == "b");
  CHECK(header.entries[0].spec.dtype == Dtype::I32);
  CHECK(header.entries[0].spec.shape.empty());
  CHECK(header.entries[0].begin == 8);
  CHECK(header.entries[0].end == 12);
  CHECK(header.entries[1].spec.name == "\xC3\xA9");
  CHECK(header.entries[1].spec.dtype == Dtype::F16);
  CHECK(header.entries[1].spec.shape == std::vector<std::int64_t>{2, 2});
  CHECK(header.metadata == SafetensorsMetadata{{"x", "1"}, {"", "\n"}});
}

TEST_CASE("headers that are not JSON objects") {
  CHECK(fault("") == "the header is wrong at byte 8: expected '{' as the first character");
  CHECK(fault(" {}") == "the header is wrong at byte 8: expected '{' as the first character");
  CHECK(fault("[]") == "the header is wrong at byte 8: expected '{' as the first character");
  CHECK(fault("{} x") == "the header is wrong at byte 11: expected nothing more");
  CHECK(fault("{\"a\":{\"dtype\":\"F32\",") ==
        "the header is wrong at byte 28: the text ends, expected a string");
}

TEST_CASE("values of the wrong kind") {
  CHECK(fault_at_byte(R"({"a":1})") == "expected an object");
  CHECK(fault_at_byte(R"({"a":null})") == "expected an object");
  CHECK(fault_at_byte(tensor(R"("dtype":32)")) == "expected a string");
  CHECK(fault_at_byte(tensor(R"("shape":3)")) == "expected an array");
  CHECK(fault_at_byte(tensor(R"("shape":[1.5])")) ==
        "the number has a fraction or an exponent; it must be a non-negative integer");
  CHECK(fault_at_byte(tensor(R"("shape":[-1])")) ==
        "the number is negative; it must be a non-negative integer");
  CHECK(fault_at_byte(tensor(R"("data_offsets":[-8,0])")) ==
        "the number is negative; it must be a non-negative integer");
  CHECK(fault_at_byte(R"({"__metadata__":"x"})") == "expected an object");
  CHECK(fault_at_byte(R"({"__metadata__":{"x":1}})") == "expected a string");
  CHECK(fault_at_byte(R"({"__metadata__":nul})") == "expected an object");
}

TEST_CASE("a deep header is refused at its first bracket, whatever its depth") {
  CHECK(fault(R"({"a":)" + std::string(10'000'000, '[')) ==
        "the header is wrong at byte 13: expected an object");
  CHECK(fault(R"({"a":{"shape":)" + std::string(10'000'000, '[')) ==
        "the header is wrong at byte 23: expected a non-negative integer");
}

TEST_CASE("metadata that are null, and further fields, are passed over") {
  auto const header = read_safetensors_header(
      R"({"__metadata__": null,"a":{"dtype":"F32","shape":[],"by":{"x":[1.5,null]},)"
      R"("data_offsets":[0,4],"scale":-1e3}})",
      "file", 8);
  REQUIRE(header.entries.size() == 1);
  CHECK(header.entries[0].spec.dtype == Dtype::F32);
  CHECK(header.entries[0].end == 4);
  CHECK(header.metadata.empty());
}

TEST_CASE("a type that is not known is OTHER, of as many bytes as its offsets say") {
  for (std::string const type :
       {"C64", "F8_E8M0", "F4", "F6_E2M3", "F6_E3M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F31", ""}) {
    auto const header = read_safetensors_header(
        tensor(R"("dtype":")" + type + R"(","shape":[3,8],"data_offsets":[0,18])"), "file", 8);
    REQUIRE(header.entries.size() == 1);
    CHECK(header.entries[0].spec.dtype == Dtype::OTHER);
    CHECK(header.entries[0].other == type);
    CHECK(header.entries[0].end == 18);
  }
  CHECK(fault_at_byte(tensor(R"("dtype":"F4","shape":[16],"data_offsets":[8,0])")) ==
        R"(the data_offsets of tensor "a" are reversed)");
}

TEST_CASE("fields that are missing or twice") {
  CHECK(fault_at_byte(tensor(R"("shape":[],"data_offsets":[0,4])")) ==
        R"(the field "dtype" of tensor "a" is missing)");
  CHECK(fault_at_byte(tensor(R"("dtype":"F32","data_offsets":[0,4])")) ==
        R"(the field "shape" of tensor "a" is missing)");
  CHECK(fault_at_byte(tensor(R"("dtype":"F32","shape":[])")) ==
        R"(the field "data_offsets" of tensor "a" is missing)");
  for (std::string const field : {R"("dtype":"F32")", R"("shape":[])", R"("data_offsets":[0,4])"}) {
    std::string const name = field.substr(0, field.find(':'));
    CHECK(fault_at_byte(tensor(field + ',' + field)) ==
          "the field " + name + R"( of tensor "a" occurs twice)");
  }
}

TEST_CASE("names that occur twice, also by an escape") {
  std::string const value = R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  CHECK(fault(R"({"a":)" + value + R"(,"b":)" + value + R"(,"\u0061":)" + value + "}") ==
        R"(the tensor "a" occurs twice in the header)");
  CHECK(fault(R"({"__metadata__":{"k":"1","l":"2","k":"3"}})") ==
        R"(the key "k" occurs twice in the metadata)");
  CHECK(fault_at_byte(R"({"__metadata__":{},"__metadata__":{}})") ==
        R"(the key "__metadata__" occurs twice)");
}

TEST_CASE("shapes and offsets that contradict each other") {
  auto const of = [](std::string const& shape, std::string const& offsets) {
    return tensor(R"("dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]");
  };
  CHECK(fault_at_byte(of("2", "0")) ==
        R"(the field "data_offsets" of tensor "a" has 1 numbers, not 2)");
  CHECK(fault_at_byte(of("2", "0,4,8")) ==
        R"(the field "data_offsets" of tensor "a" has 3 numbers, not 2)");
  CHECK(fault_at_byte(of("2", "8,0")) == R"(the data_offsets of tensor "a" are reversed)");
  CHECK(fault_at_byte(of("2", "0,9")) ==
        R"(the data_offsets of tensor "a" span 9 bytes, but its dtype and shape make 8)");
  CHECK(fault_at_byte(of("", "0,0")) ==
        R"(the data_offsets of tensor "a" span 0 bytes, but its dtype and shape make 4)");
  CHECK(fault_at_byte(of("3,0", "0,4")) ==
        R"(the data_offsets of tensor "a" span 4 bytes, but its dtype and shape make 0)");
  CHECK(fault_at_byte(of("4294967296,4294967296", "0,0")) ==
        R"(the shape of tensor "a" has more than 2^63 - 1 bytes)");
  CHECK(fault_at_byte(of("4611686018427387904", "0,0")) ==
        R"(the shape of tensor "a" has more than 2^63 - 1 bytes)");
}

TEST_CASE("a long name is cut in the error") {
  std::string const name(1000, 'n');
  CHECK(fault_at_byte("{\"" + name + R"(":{"x":1}})") ==
        R"(the field "dtype" of tensor ")" + name.substr(0, 64) + R"("... is missing)");
}

}  // namespace safetensors_header_test
}  // namespace tandem::detail
