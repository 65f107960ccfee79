// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/mnist.hpp>

#include "data_files.hpp"
#include "gzip_support.hpp"

#if !defined(TANDEM_FASHION_MNIST)
#define TANDEM_FASHION_MNIST "/usr/share/datasets/fashion-mnist"
#endif

namespace mnist_test {

using doctest::Contains;
using tandem::FileError;
using tandem::Mnist;
using Plain = tandem::BasicIdxFolder<tandem::NoZlib>;

void write_small_folder(support::TemporaryFolder const& folder) {
  folder.write("train-images-idx3-ubyte", support::idx_images(5, 3, 2));
  folder.write("train-labels-idx1-ubyte", support::idx_labels(5));
  folder.write("t10k-images-idx3-ubyte", support::idx_images(2, 3, 2, 100));
  folder.write("t10k-labels-idx1-ubyte", support::idx_labels(2, 4));
}

std::int32_t label(tandem::IdxSplit const& split, std::int64_t index) {
  std::vector<float> x(static_cast<std::size_t>(split.shape().elements()));
  std::vector<std::int32_t> y(1);
  split.read(index, x, y);
  return y[0];
}

TEST_CASE("Mnist reads a folder of plain files") {
  support::TemporaryFolder const folder;
  write_small_folder(folder);
  Plain const mnist{folder.path()};
  CHECK(mnist.train().size() == 5);
  CHECK(mnist.test().size() == 2);
  CHECK(mnist.train().shape() == tandem::image_shape(1, 3, 2));
  CHECK(label(mnist.train(), 1) == 7);
  CHECK(label(mnist.test(), 1) == 1);
}

TEST_CASE("Mnist reads files with a dot in their names, and plain ones that are named .gz") {
  support::TemporaryFolder const folder;
  folder.write("train-images.idx3-ubyte", support::idx_images(5, 3, 2));
  folder.write("train-labels.idx1-ubyte.gz", support::idx_labels(5));
  folder.write("t10k-images.idx3-ubyte", support::idx_images(2, 3, 2, 100));
  folder.write("t10k-labels-idx1-ubyte", support::idx_labels(2, 4));
  Plain const mnist{folder.path()};
  CHECK(label(mnist.train(), 1) == 7);
  folder.write("train-labels.idx1-ubyte.gz", {'<', 'h', 't', 'm', 'l', '>'});
  CHECK_THROWS_WITH_AS(Plain{folder.path()}, Contains("a web page; download"), FileError);
}

TEST_CASE("Mnist names what is missing") {
  support::TemporaryFolder const folder;
  CHECK_THROWS_WITH_AS(Plain{folder.path() + "/none"},
                       Contains("/none': there is no such folder; expected one with "
                                "train-images-idx3-ubyte and its three companions, plain or .gz, "
                                "such as /usr/share/datasets/fashion-mnist of the Debian package "
                                "dataset-fashion-mnist"),
                       FileError);
  write_small_folder(folder);
  for (std::string const name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    support::TemporaryFolder const other;
    write_small_folder(other);
    std::filesystem::remove(other.path() + "/" + name);
    CHECK_THROWS_WITH_AS(
        Plain{other.path()},
        Contains((name + "': neither this file nor one of this name with '.gz'").c_str()),
        FileError);
  }
}

TEST_CASE("Mnist passes the number of classes on") {
  support::TemporaryFolder const folder;
  write_small_folder(folder);
  CHECK_THROWS_WITH_AS((Plain{folder.path(), 5}),
                       Contains("train-labels-idx1-ubyte': label out of range"), FileError);
}

TEST_CASE("Mnist without zlib says so of gzipped files") {
  support::TemporaryFolder const folder;
  folder.write("train-images-idx3-ubyte.gz", {0x1F, 0x8B});
  CHECK_THROWS_WITH_AS(Plain{folder.path()},
                       Contains("train-images-idx3-ubyte.gz': this program was compiled without "
                                "zlib"),
                       FileError);
}

#if defined(TANDEM_ZLIB) && TANDEM_ZLIB

TEST_CASE("Mnist reads gzipped files, and mixed ones") {
  support::TemporaryFolder const folder;
  write_small_folder(folder);
  std::filesystem::remove(folder.path() + "/train-images-idx3-ubyte");
  std::filesystem::remove(folder.path() + "/t10k-labels-idx1-ubyte");
  folder.write("train-images-idx3-ubyte.gz", support::gzip(support::idx_images(5, 3, 2)));
  folder.write("t10k-labels-idx1-ubyte.gz", support::gzip(support::idx_labels(2, 6)));
  folder.write("t10k-images-idx3-ubyte", support::gzip(support::idx_images(2, 3, 2)));
  Mnist const mnist{folder.path()};
  CHECK(mnist.train().size() == 5);
  CHECK(label(mnist.test(), 1) == 3);
}

TEST_CASE("FashionMnist reads the images of the Debian package") {
  std::string const folder = TANDEM_FASHION_MNIST;
  if (!tandem::folder_exists(folder)) {
    MESSAGE("skipped: no folder " << folder << ", install dataset-fashion-mnist");
    return;
  }
  tandem::FashionMnist const fashion{folder};
  CHECK(fashion.train().size() == 60000);
  CHECK(fashion.test().size() == 10000);
  CHECK(fashion.train().shape() == tandem::image_shape(1, 28, 28));
  int counts[10] = {};
  double sum = 0.0;
  std::vector<float> x(784);
  std::vector<std::int32_t> y(1);
  for (std::int64_t i = 0; i < 60000; ++i) {
    fashion.train().read(i, x, y);
    ++counts[y[0]];
    for (float const pixel : x) {
      sum += static_cast<double>(pixel);
    }
  }
  for (int const count : counts) {
    CHECK(count == 6000);
  }
  double const mean = sum / (60000.0 * 784.0);  // published: 0.2860
  CHECK(mean > 0.28595);
  CHECK(mean < 0.28605);
  CHECK(label(fashion.train(), 0) == 9);  // an ankle boot
}

#else

TEST_CASE("gzipped files") { MESSAGE("skipped: compiled without TANDEM_ZLIB"); }

#endif

}  // namespace mnist_test
