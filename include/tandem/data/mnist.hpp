// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Mnist and FashionMnist: the two splits of a folder of four IDX files, plain or gzipped.

#include <string>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/data/idx.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>

namespace tandem {

/// A folder with `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, `t10k-images-idx3-ubyte` and
/// `t10k-labels-idx1-ubyte`, each under that name or with `.gz` after it, or with a dot before
/// `idx`. What is gzipped is inflated by I.
///
/// Cost: both splits stay in memory as bytes, 55 MB for MNIST and for Fashion-MNIST.
template <Inflater I>
class BasicIdxFolder {
 public:
  /// @throws FileError  the folder or a file is missing, or a file is not what IdxSplit expects
  TANDEM_NOINLINE explicit BasicIdxFolder(std::string const& folder, int classes = 10);

  [[nodiscard]] IdxSplit const& train() const& noexcept { return train_; }
  [[nodiscard]] IdxSplit const& test() const& noexcept { return test_; }
  IdxSplit const& train() const&& = delete;  // the folder owns its splits: give it a name
  IdxSplit const& test() const&& = delete;

 private:
  IdxSplit train_;
  IdxSplit test_;
};

namespace detail {

/// @throws FileError  the folder is missing
TANDEM_ONCE TANDEM_COLD void expect_idx_folder(std::string const& folder);

/// The name that a file has, with a hyphen or a dot before @p kind.
TANDEM_ONCE TANDEM_COLD std::string idx_file(std::string const& stem, std::string const& kind);

template <Inflater I>
TANDEM_COLD IdxSplit read_idx_split(std::string const& folder, std::string const& part,
                                    int classes) {
  expect_idx_folder(folder);
  std::string const images = idx_file(folder + "/" + part + "-images", "idx3-ubyte");
  std::string const labels = idx_file(folder + "/" + part + "-labels", "idx1-ubyte");
  return {read_plain_or_gzip<I>(images), read_plain_or_gzip<I>(labels), images, labels, classes};
}

}  // namespace detail

template <Inflater I>
BasicIdxFolder<I>::BasicIdxFolder(std::string const& folder, int classes)
    : train_{detail::read_idx_split<I>(folder, "train", classes)},
      test_{detail::read_idx_split<I>(folder, "t10k", classes)} {}

using IdxFolder = BasicIdxFolder<Inflate>;
using Mnist = IdxFolder;
using FashionMnist = IdxFolder;

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void expect_idx_folder(std::string const& folder) {
  if (!folder_exists(folder)) {
    throw FileError{folder,
                    "there is no such folder; expected one with train-images-idx3-ubyte and its "
                    "three companions, plain or .gz, such as /usr/share/datasets/fashion-mnist of "
                    "the Debian package dataset-fashion-mnist"};
  }
}

TANDEM_ONCE std::string idx_file(std::string const& stem, std::string const& kind) {
  std::string const dotted = stem + "." + kind;
  bool const is_dotted = path_exists(dotted) || path_exists(dotted + ".gz");
  return is_dotted ? dotted : stem + "-" + kind;
}

}  // namespace tandem::detail

#endif
