// SPDX-License-Identifier: Apache-2.0
// Every flipped bit and every wrong byte of a file with checksums is found, or changes nothing that
// is read; files without checksums are read as ever.

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/io/safetensors/all.hpp>

#include "temporary_folder.hpp"

namespace tandem {
namespace safetensors_checksum_test {

using test::contains;

std::array<float, 6> const weights{1.5F, -2.0F, 0.0F, 1e30F, 7.0F, -0.0F};
std::array<std::int64_t, 1> const step{42};

std::vector<TensorView> tensors() {
  return {{"0.weight", Dtype::F32, {3, 2}, std::as_bytes(std::span{weights})},
          {"none", Dtype::F64, {0, 4}, {}},
          {"tandem.step", Dtype::I64, {1}, std::as_bytes(std::span{step})}};
}
SafetensorsMetadata metadata() { return {{"format", "tandem"}, {"optimizer", "Sgd"}}; }

/// What a reader of checkpoints makes of a file.
std::string read_out(Safetensors const& file) {
  std::string text;
  for (TensorView const& tensor : file.tensors()) {
    text += detail::tensor_checksum(tensor) + tensor.name + "\n";
  }
  std::string const* const optimizer = file.find_metadata("optimizer");
  return text + (optimizer != nullptr ? *optimizer : "none");
}

std::string written(std::string const& path, SafetensorsMetadata const& with) {
  write_safetensors(path, tensors(), with);
  return test::content(path);
}

TEST_CASE("the checksums are those that the documentation describes") {
  test::TemporaryFolder const folder;
  written(folder.file("x"), with_checksums(tensors(), metadata()));
  auto const file = Safetensors::read(folder.file("x"));
  // xxhash.xxh64(b"0.weight F32 [3,2]\n" + numpy.float32([...]).tobytes()).hexdigest(), and so on
  CHECK(*file.find_metadata("xxh64.0.weight") == "f269b98deee70f21");
  CHECK(*file.find_metadata("xxh64.none") == "8be4924e670fab40");
  CHECK(*file.find_metadata("xxh64.tandem.step") == "8bcaea57cdab6ea8");
  CHECK(*file.find_metadata("xxh64") == "88bf18cec72c5c56");
  CHECK(with_checksums(file.tensors(), file.metadata()) == file.metadata());
}

TEST_CASE("a wrong byte is found, or changes nothing that is read") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  std::string const good = written(path, with_checksums(tensors(), metadata()));
  std::string const expected = read_out(Safetensors::read(path));
  std::size_t const data = good.size() - 8 - sizeof(weights);
  int harmless = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int change = 0; change < 11; ++change) {
      std::string bad = good;
      bad[at] = static_cast<char>(change < 8    ? good[at] ^ (1 << change)
                                  : change == 8 ? 0
                                  : change == 9 ? 0xFF
                                                : 'I');
      if (bad == good) {
        continue;
      }
      test::put(path, bad);
      try {
        bool const same = read_out(Safetensors::read(path)) == expected;
        INFO("byte " << at << " of " << good.size() << ", change " << change);
        CHECK(same);
        CHECK(at < data);
        ++harmless;
      } catch (FileError const& error) {
        std::string const text = error.what();
        CHECK(text.starts_with("'" + path + "': "));
        bool const weight = at >= data && at < data + sizeof(weights);
        CHECK((!weight || contains(text, "tensor \"0.weight\" is damaged: its checksum is ")));
      }
    }
  }
  CHECK(harmless > 0);    // in the name of the metadata's own checksum
  CHECK(harmless < 100);  // of ten thousand
}

TEST_CASE("the end is missing, wherever it is cut") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  std::string const good = written(path, with_checksums(tensors(), metadata()));
  for (std::size_t size = 0; size < good.size(); ++size) {
    test::put(path, good.substr(0, size));
    CHECK(contains(test::message<FileError>([&] { static_cast<void>(Safetensors::read(path)); }),
                   path));
  }
}

TEST_CASE("files of others have no checksums, or only some") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("x");
  written(path, metadata());
  CHECK(Safetensors::read(path).tensors().size() == 3);
  SafetensorsMetadata some = with_checksums(tensors(), metadata());
  std::erase_if(some, [](auto const& entry) { return entry.first != "xxh64.0.weight"; });
  std::string bad = written(path, some);
  CHECK(Safetensors::read(path).tensors().size() == 3);
  bad.back() = static_cast<char>(bad.back() ^ 1);  // of tandem.step, which has none
  test::put(path, bad);
  CHECK(Safetensors::read(path).tensors().size() == 3);
}

TEST_CASE("a checksum of a tensor that has gone") {
  test::TemporaryFolder const folder;
  std::vector<TensorView> less = tensors();
  less.erase(less.begin());
  write_safetensors(folder.file("x"), less, with_checksums(tensors(), metadata()));
  CHECK(contains(
      test::message<FileError>([&] { static_cast<void>(Safetensors::read(folder.file("x"))); }),
      "there is a checksum of tensor \"0.weight\", but no such tensor"));
}

}  // namespace safetensors_checksum_test
}  // namespace tandem
