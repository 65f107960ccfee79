// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/cifar10.hpp>
#include <tandem/data/dataset.hpp>

#include "data_files.hpp"

namespace cifar10_test {

using doctest::Contains;
using support::Bytes;
using support::cifar10_records;
using tandem::Cifar10;
using tandem::Cifar10Split;
using tandem::FileError;
using tandem::parse_cifar10;

static_assert(tandem::ClassifiedDataset<Cifar10Split>);

TEST_CASE("parse_cifar10 counts records") {
  CHECK(parse_cifar10(cifar10_records(1), "f") == 1);
  CHECK(parse_cifar10(cifar10_records(13), "f") == 13);
}

TEST_CASE("parse_cifar10 refuses what is no whole number of records") {
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_cifar10({}, "f")),
                       "'f': truncated or oversized: expected a whole number of records of 3073 "
                       "bytes, found 0 bytes, 0 more than 0 records",
                       FileError);
  Bytes bytes = cifar10_records(2);
  bytes.pop_back();
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_cifar10(bytes, "f")),
                       "'f': truncated or oversized: expected a whole number of records of 3073 "
                       "bytes, found 6145 bytes, 3072 more than 1 records",
                       FileError);
  bytes.resize(6147);
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_cifar10(bytes, "f")),
                       Contains("found 6147 bytes, 1 more than 2 records"), FileError);
}

TEST_CASE("parse_cifar10 knows the files of CIFAR-100") {
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_cifar10(Bytes(std::size_t{10000} * 3074), "f")),
                       Contains("'f': the size is that of records of CIFAR-100"), FileError);
}

TEST_CASE("parse_cifar10 refuses labels above 9") {
  Bytes bytes = cifar10_records(3);
  bytes[2 * 3073] = 10;
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_cifar10(bytes, "f")),
                       "'f': label out of range: expected labels from 0 to 9, found 10 in record 2",
                       FileError);
}

TEST_CASE("Cifar10Split reads pixels as fractions of 255, and labels") {
  Cifar10Split const split{cifar10_records(3, 250), "f"};
  CHECK(split.size() == 3);
  CHECK(split.shape() == tandem::image_shape(3, 32, 32));
  CHECK(split.targets() == 1);
  CHECK(split.classes() == 10);
  std::vector<float> x(3072);
  std::vector<std::int32_t> y(1);
  split.read(2, x, y);
  CHECK(y[0] == 2);
  std::vector<float> expected(3072);
  for (std::size_t p = 0; p < 3072; ++p) {
    expected[p] = static_cast<float>((252 + 3 * p) % 256) / 255.0F;
  }
  CHECK(x == expected);
  CHECK_THROWS_WITH_AS(split.read(3, x, y), Contains("index must be in [0, size())"),
                       tandem::ContractError);
  x.resize(3071);
  CHECK_THROWS_WITH_AS(split.read(0, x, y), Contains("x takes 3072 numbers"),
                       tandem::ContractError);
}

TEST_CASE("Cifar10 names a missing folder and a missing file") {
  support::TemporaryFolder const folder;
  CHECK_THROWS_WITH_AS(Cifar10{folder.path() + "/none"},
                       Contains("/none': there is no such folder; expected the unpacked binary "
                                "version of CIFAR-10"),
                       FileError);
  CHECK_THROWS_WITH_AS(Cifar10{folder.path()}, Contains("data_batch_1.bin': there is no such file"),
                       FileError);
}

TEST_CASE("Cifar10 refuses a file of other than 10000 records") {
  support::TemporaryFolder const folder;
  folder.write("data_batch_1.bin", cifar10_records(2));
  CHECK_THROWS_WITH_AS(Cifar10{folder.path()},
                       Contains("data_batch_1.bin': expected the 10000 records of a file of "
                                "CIFAR-10, found 2"),
                       FileError);
  Bytes bytes = cifar10_records(2);
  bytes.pop_back();
  folder.write("data_batch_1.bin", bytes);
  CHECK_THROWS_WITH_AS(Cifar10{folder.path()},
                       Contains("data_batch_1.bin': truncated or oversized"), FileError);
}

TEST_CASE("Cifar10 reads the files in order, from its folder or from the one around it") {
  support::TemporaryFolder const outer;
  std::string const inner = outer.path() + "/cifar-10-batches-bin";
  for (std::size_t file = 1; file <= 6; ++file) {
    std::string const name =
        file == 6 ? "test_batch.bin" : "data_batch_" + std::to_string(file) + ".bin";
    outer.write("cifar-10-batches-bin/" + name, cifar10_records(10000, file));
  }
  std::vector<float> x(3072);
  std::vector<std::int32_t> y(1);
  for (std::string const& folder : {outer.path(), inner}) {
    Cifar10 const cifar{folder};
    CHECK(cifar.train().size() == 50000);
    CHECK(cifar.test().size() == 10000);
    for (std::int64_t file = 1; file <= 5; ++file) {
      cifar.train().read((file - 1) * 10000, x, y);
      CHECK(y[0] == file);
    }
    cifar.train().read(49999, x, y);
    CHECK(y[0] == (9999 + 5) % 10);
    cifar.test().read(0, x, y);
    CHECK(y[0] == 6);
  }
}

}  // namespace cifar10_test
