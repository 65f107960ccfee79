// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/idx.hpp>

#include "data_files.hpp"

namespace idx_test {

using doctest::Contains;
using support::Bytes;
using support::idx_file;
using support::idx_images;
using support::idx_labels;
using tandem::FileError;
using tandem::IdxSplit;
using tandem::parse_idx;

static_assert(tandem::ClassifiedDataset<IdxSplit> && !tandem::RandomDataset<IdxSplit>);

void check_refused(Bytes const& bytes, int rank, std::string const& sentence) {
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_idx(bytes, "f", rank)), ("'f': " + sentence).c_str(),
                       FileError);
}

TEST_CASE("parse_idx returns the extents") {
  auto const images = parse_idx(idx_images(3, 4, 5), "f", 3);
  CHECK(images.count == 3);
  CHECK(images.rows == 4);
  CHECK(images.columns == 5);
  CHECK(images.bytes == 16);
  auto const labels = parse_idx(idx_labels(7), "f", 1);
  CHECK(labels.count == 7);
  CHECK(labels.bytes == 8);
}

TEST_CASE("parse_idx takes ranks 1 and 3 only") {
  CHECK_THROWS_WITH_AS(static_cast<void>(parse_idx(idx_labels(1), "f", 2)),
                       Contains("parse_idx: rank must be 1 (labels) or 3 (images)"),
                       tandem::ContractError);
}

TEST_CASE("parse_idx refuses other files") {
  check_refused(idx_labels(3), 3,
                "expected an IDX file with magic number 0x00000803, images; found 0x00000801, "
                "labels");
  check_refused(idx_images(1, 2, 2), 1,
                "expected an IDX file with magic number 0x00000801, labels; found 0x00000803, "
                "images");
  check_refused(idx_file(0x802, {1, 1}, 1, 10), 3,
                "expected an IDX file with magic number 0x00000803, images; found 0x00000802");
  check_refused({0x1F, 0x8B, 8, 0, 0, 0, 0, 0}, 3,
                "expected an IDX file with magic number 0x00000803, images; found 0x1f8b0800, a "
                "gzip file");
  check_refused({'<', '!', 'D', 'O', 'C'}, 3,
                "expected an IDX file with magic number 0x00000803, images; found 0x3c21444f, a "
                "web page; download the file again");
}

TEST_CASE("parse_idx refuses a cut header") {
  check_refused({}, 3, "the file is truncated: expected an IDX header of 16 bytes, found 0 bytes");
  check_refused({0, 0, 8}, 1,
                "the file is truncated: expected an IDX header of 8 bytes, found 3 bytes");
  Bytes cut = idx_images(1, 1, 1);
  cut.resize(15);
  check_refused(cut, 3,
                "the file is truncated: expected an IDX header of 16 bytes, found 15 bytes");
}

TEST_CASE("parse_idx refuses extents that do not agree with the length") {
  Bytes images = idx_images(3, 4, 5);
  images.pop_back();
  check_refused(images, 3,
                "the file is truncated: expected 76 bytes for a header and 3 x 4 x 5 values, found "
                "75 bytes");
  images.resize(77);
  check_refused(images, 3,
                "the file is too long: expected 76 bytes for a header and 3 x 4 x 5 values, found "
                "77 bytes");
  Bytes labels = idx_labels(3);
  labels.pop_back();
  check_refused(labels, 1,
                "the file is truncated: expected 11 bytes for a header and 3 values, found 10 "
                "bytes");
}

TEST_CASE("parse_idx refuses extents of zero and extents that overflow") {
  std::string const expected =
      "expected between 1 and 2147483647 samples of between 1 and 65535 rows and columns, found ";
  check_refused(idx_file(0x803, {0, 28, 28}, 0, 256), 3, expected + "0 x 28 x 28");
  check_refused(idx_file(0x803, {1, 0, 28}, 0, 256), 3, expected + "1 x 0 x 28");
  check_refused(idx_file(0x803, {1, 28, 0}, 0, 256), 3, expected + "1 x 28 x 0");
  check_refused(idx_file(0x801, {0}, 0, 256), 1, expected + "0");
  check_refused(idx_file(0x803, {0x80000000U, 1, 1}, 0, 256), 3, expected + "2147483648 x 1 x 1");
  check_refused(idx_file(0x803, {1, 0x10000, 0x10000}, 0, 256), 3, expected + "1 x 65536 x 65536");
  // 2^32 * 2^32 * 2^32 values are 0 modulo 2^64, and (2^31 - 1) * 65535^2 of them fit just so.
  check_refused(idx_file(0x803, {0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU}, 0, 256), 3,
                expected + "4294967295 x 4294967295 x 4294967295");
  check_refused(idx_file(0x803, {0x7FFFFFFFU, 0xFFFF, 0xFFFF}, 0, 256), 3,
                "the file is truncated: expected 9223090559730712591 bytes for a header and "
                "2147483647 x 65535 x 65535 values, found 16 bytes");
}

TEST_CASE("IdxSplit reads pixels as fractions of 255, and labels") {
  IdxSplit const split{idx_images(3, 2, 4, 250), idx_labels(3, 5), "images", "labels"};
  CHECK(split.size() == 3);
  CHECK(split.shape() == tandem::image_shape(1, 2, 4));
  CHECK(split.targets() == 1);
  CHECK(split.classes() == 10);
  std::vector<float> x(8);
  std::vector<std::int32_t> y(1);
  for (std::int64_t sample = 0; sample < 3; ++sample) {
    split.read(sample, x, y);
    for (std::size_t p = 0; p < 8; ++p) {
      std::size_t const value = static_cast<std::size_t>(sample) * 8 + p;
      CHECK(x[p] == static_cast<float>((7 * value + 250) % 256) / 255.0F);
    }
    CHECK(y[0] == static_cast<std::int32_t>((7 * sample + 5) % 10));
  }
}

TEST_CASE("IdxSplit maps the bytes 0 and 255 to 0 and 1") {
  Bytes images = idx_images(1, 1, 2);
  images[16] = 0;
  images[17] = 255;
  IdxSplit const split{images, idx_labels(1), "images", "labels"};
  std::vector<float> x(2);
  std::vector<std::int32_t> y(1);
  split.read(0, x, y);
  CHECK(x == std::vector<float>{0.0F, 1.0F});
}

TEST_CASE("IdxSplit refuses counts that differ") {
  CHECK_THROWS_WITH_AS((IdxSplit{idx_images(3, 2, 2), idx_labels(2), "images", "labels"}),
                       "'labels': expected 3 labels, one for each image of 'images', found 2",
                       FileError);
}

TEST_CASE("IdxSplit names the file that is wrong") {
  CHECK_THROWS_WITH_AS((IdxSplit{idx_labels(2), idx_labels(2), "images", "labels"}),
                       Contains("'images': expected an IDX file"), FileError);
  CHECK_THROWS_WITH_AS((IdxSplit{idx_images(2, 1, 1), idx_images(2, 1, 1), "images", "labels"}),
                       Contains("'labels': expected an IDX file"), FileError);
}

TEST_CASE("IdxSplit refuses labels that are not below the number of classes") {
  Bytes labels = idx_labels(3);  // 0, 7, 4
  CHECK_NOTHROW((IdxSplit{idx_images(3, 1, 1), labels, "images", "labels", 8}));
  CHECK_THROWS_WITH_AS(
      (IdxSplit{idx_images(3, 1, 1), labels, "images", "labels", 7}),
      "'labels': label out of range: expected labels from 0 to 6, found 7 for sample 1", FileError);
  labels.back() = 10;
  CHECK_THROWS_WITH_AS(
      (IdxSplit{idx_images(3, 1, 1), labels, "images", "labels"}),
      "'labels': label out of range: expected labels from 0 to 9, found 10 for sample 2",
      FileError);
}

TEST_CASE("IdxSplit::read checks its arguments") {
  IdxSplit const split{idx_images(3, 2, 4), idx_labels(3), "images", "labels"};
  std::vector<float> x(8);
  std::vector<float> short_x(7);
  std::vector<std::int32_t> y(1);
  CHECK_THROWS_WITH_AS(split.read(-1, x, y), Contains("index must be in [0, size())"),
                       tandem::ContractError);
  CHECK_THROWS_WITH_AS(split.read(3, x, y), Contains("index must be in [0, size())"),
                       tandem::ContractError);
  CHECK_THROWS_WITH_AS(split.read(0, short_x, y), Contains("x takes rows * columns numbers"),
                       tandem::ContractError);
}

}  // namespace idx_test
