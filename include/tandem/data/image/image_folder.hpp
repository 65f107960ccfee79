// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ImageFolder: a Dataset of the image files in a folder, which has a folder for each class.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <sys/stat.h>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/shape.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/image/decode.hpp>
#include <tandem/data/image/pixels.hpp>
#include <tandem/data/image/random_resized_crop.hpp>
#include <tandem/data/image/resample.hpp>
#include <tandem/data/image/resizing.hpp>
#include <tandem/io/file.hpp>

namespace tandem::detail {

struct Listing {
  std::vector<std::string> folders;  // names, sorted by their bytes
  std::vector<std::string> files;
};

/// The entries of @p path, links followed; an entry that is neither file nor folder is left out.
/// @throws FileError  the folder cannot be read, or a link in it leads nowhere
TANDEM_ONCE Listing list_folder(std::string const& path);

/// Adds the .jpg, .jpeg and .png files of each folder of the tree @p path to @p images, by the
/// folder's path: the order of both is torchvision's, which has "a-b" before "a/b".
/// @throws FileError  a file is an image of another kind, folders are nested without an end, or as
///                    list_folder()
TANDEM_ONCE void list_images(std::string const& path,
                             std::map<std::string, std::vector<std::string>>& images,
                             int depth = 0);

}  // namespace tandem::detail

namespace tandem {

/// How the image of a file becomes a sample.
struct ImageFolderOptions {
  int resize = 0;  ///< shorter side before the middle is cut out; 0: what just covers a sample
  bool stretch = false;  ///< instead to the sample's height and width, whatever the ratio was
  std::optional<RandomResizedCrop> random_crop{};  ///< in training, instead of both
  bool keep = false;                               ///< keep each image once it is decoded
  std::vector<std::string> class_names{};          ///< none: the names of the folders, sorted
};

namespace detail {

/// Images by index, each set once, by whichever thread comes first.
class KeptImages {
 public:
  explicit KeptImages(std::size_t count) : images_(count) {}
  KeptImages(KeptImages&&) noexcept = default;
  KeptImages& operator=(KeptImages&&) = delete;
  ~KeptImages() {
    for (auto& image : images_) {
      delete image.load(std::memory_order_relaxed);
    }
  }

  /// Null where it has not been set.
  [[nodiscard]] Pixels const* find(std::size_t i) const {
    return images_[i].load(std::memory_order_acquire);
  }

  TANDEM_ONCE Pixels const& set(std::size_t i, Pixels&& image) const;

 private:
  mutable std::vector<std::atomic<Pixels const*>> images_;
};

}  // namespace detail

/// The primary template is the error path: In is no Image, or Decoder is none.
template <class In, class Decoder = ImageDecode>
class ImageFolder {
  static_assert(ImageDecoder<Decoder>,
                "ImageFolder<In, Decoder>: Decoder must have decode(bytes, name) -> Pixels");
  static_assert(!ImageDecoder<Decoder>,
                "ImageFolder<In>: In must be what a network takes, Image<C, H, W> with C of 1 "
                "(grey), 3 (RGB) or 4 (RGBA)");
};

/// JPEG and PNG files, `PATH/CLASS/….jpg`: the classes are the sorted names of the folders, samples
/// stand by class and then by name, as torchvision's; pixels are in [0, 1], a byte divided by 255.
///
/// Training reads a random piece where options.random_crop says so; evaluation, the plain read, the
/// middle of the image resized, with the bits of torchvision's Resize and CenterCrop on Pillow's
/// images. Give a Trainer several loader threads, since decoding takes long.
///
/// Cost: a read is the file's decoding. With `keep` each is decoded once and stays in memory, a
///       byte for each pixel and channel: of the sample, or with random_crop of the whole image.
template <int C, int H, int W, ImageDecoder Decoder>
  requires(C == 1 || C == 3 || C == 4)
class ImageFolder<Image<C, H, W>, Decoder> {
 public:
  using Target = std::int32_t;
  static constexpr std::uint32_t draws = 1;

  /// @throws FileError      @p path is no folder, has no folders, one of them has no image, or a
  ///                        link in them leads nowhere
  /// @throws ContractError  an option is out of its range
  explicit ImageFolder(std::string const& path, ImageFolderOptions options = {})
      : options_{checked(std::move(options))} {
    list(path);
    kept_.emplace(options_.keep ? files_.size() : std::size_t{0});
  }

  /// @pre 0 <= index < size(), x.size() == shape().elements(), y.size() == 1
  /// @throws FileError  the file cannot be read or decoded
  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y) const {
    check(index, x.size(), y.size());
    auto const i = static_cast<std::size_t>(index);
    if (!options_.keep) {
      write(middle(decoded(i), i), x);
    } else if (Pixels const* const kept = kept_->find(i)) {
      options_.random_crop ? write(middle(*kept, i), x) : write(*kept, x);
    } else if (options_.random_crop) {
      write(middle(keep(i, decoded(i)), i), x);
    } else {
      write(keep(i, middle(decoded(i), i)), x);
    }
    y[0] = labels_[i];
  }

  void read(std::int64_t index, std::span<float> x, std::span<std::int32_t> y,
            Randomness const& randomness) const {
    if (!options_.random_crop) {
      return read(index, x, y);
    }
    check(index, x.size(), y.size());
    auto const i = static_cast<std::size_t>(index);
    auto const piece = [&](Pixels const& image) {
      PixelBox const box = options_.random_crop->box(image.height, image.width, randomness.draw(0));
      write(resize(image, box, H, W, {0, 0, H, W}), x);
    };
    if (!options_.keep) {
      piece(decoded(i));
    } else if (Pixels const* const kept = kept_->find(i)) {
      piece(*kept);
    } else {
      piece(keep(i, decoded(i)));
    }
    y[0] = labels_[i];
  }

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(files_.size());
  }
  [[nodiscard]] Shape shape() const noexcept { return image_shape(C, H, W); }
  [[nodiscard]] int targets() const noexcept { return 1; }
  [[nodiscard]] int classes() const noexcept {
    return static_cast<int>(options_.class_names.size());
  }
  /// By label.
  [[nodiscard]] std::vector<std::string> const& class_names() const noexcept {
    return options_.class_names;
  }
  /// The file of sample @p index.
  [[nodiscard]] std::string const& file(std::int64_t index) const {
    expects(index >= 0 && index < size(), "ImageFolder::file: the index must be in [0, size())");
    return files_[static_cast<std::size_t>(index)];
  }

 private:
  static constexpr std::size_t sample_pixels = std::size_t{H} * std::size_t{W};

  static ImageFolderOptions checked(ImageFolderOptions options) {
    expects(options.resize == 0 || (options.resize >= H && options.resize >= W),
            "ImageFolderOptions: resize, the shorter side, must be at least the sample's height "
            "and width, or 0 for what just covers them");
    expects(options.resize <= 65536, "ImageFolderOptions: resize is at most 65536");
    expects(options.resize == 0 || !options.stretch,
            "ImageFolderOptions: give either resize, which keeps the ratio, or stretch");
    if (options.random_crop) {
      options.random_crop->check();
    }
    return options;
  }

  void list(std::string const& path) {
    detail::Listing const folders = detail::list_folder(path);
    std::vector<std::string>& names = options_.class_names;
    if (folders.folders.empty()) {
      throw FileError{path, "the folder has no folders in it, expected one for each class"};
    }
    if (names.empty()) {
      names = folders.folders;
    }
    for (std::string const& folder : folders.folders) {
      auto const name = std::find(names.begin(), names.end(), folder);
      if (name == names.end()) {
        throw FileError{path + "/" + folder,
                        "there is no such class among ImageFolderOptions::class_names"};
      }
      std::map<std::string, std::vector<std::string>> images;
      detail::list_images(path + "/" + folder, images);
      for (auto const& [place, files] : images) {
        for (std::string const& file : files) {
          files_.push_back(place + "/" + file);
        }
      }
      if (files_.size() == labels_.size()) {
        throw FileError{path + "/" + folder,
                        "the folder of a class has no .jpg, .jpeg or .png file; remove it, or put "
                        "some there"};
      }
      labels_.resize(files_.size(), static_cast<std::int32_t>(name - names.begin()));
    }
  }

  void check(std::int64_t index, std::size_t x, std::size_t y) const {
    expects(index >= 0 && index < size(), "ImageFolder::read: the index must be in [0, size())");
    expects(x == sample_pixels * C && y == 1,
            "ImageFolder::read: x takes shape().elements() numbers, y takes one label");
  }

  [[nodiscard]] Pixels decoded(std::size_t i) const {
    return with_channels(Decoder::decode(read_file(files_[i]), files_[i]), C);
  }

  Pixels const& keep(std::size_t i, Pixels&& image) const {
    try {
      return kept_->set(i, std::move(image));
    } catch (std::bad_alloc const&) {
      throw Error{
          "out of memory: an ImageFolder keeps each image that is decoded; leave "
          "ImageFolderOptions::keep off"};
    }
  }

  // Rows and columns as torchvision's Resize and CenterCrop have them.
  [[nodiscard]] Pixels middle(Pixels const& image, std::size_t i) const {
    PixelBox const all{0, 0, image.height, image.width};
    if (options_.stretch) {
      return resize(image, all, H, W, {0, 0, H, W});
    }
    std::int64_t height = image.height;
    std::int64_t width = image.width;
    bool const is_flat = width > height;
    std::int64_t const shorter = is_flat ? height : width;
    std::int64_t side = options_.resize;
    if (side == 0) {  // the least of which neither axis falls short
      std::int64_t const for_height = is_flat ? H : (H * shorter + height - 1) / height;
      std::int64_t const for_width = is_flat ? (W * shorter + width - 1) / width : W;
      side = std::max(for_height, for_width);
    }
    height = is_flat ? side : height * side / shorter;
    width = is_flat ? width * side / shorter : side;
    if (std::max(height, width) > 0x7FFFFFFF) {
      throw FileError{files_[i], "an image of " + std::to_string(image.width) + " x " +
                                     std::to_string(image.height) +
                                     " pixels is too narrow to be resized; take it out"};
    }
    return resize(image, all, static_cast<int>(height), static_cast<int>(width),
                  {CenterCrop::border(static_cast<int>(height) - H),
                   CenterCrop::border(static_cast<int>(width) - W), H, W});
  }

  // (H, W, C) bytes to (C, H, W) numbers.
  static void write(Pixels const& image, std::span<float> x) {
    for (std::size_t c = 0; c < C; ++c) {
      for (std::size_t i = 0; i < sample_pixels; ++i) {
        x[c * sample_pixels + i] = static_cast<float>(image.bytes[i * C + c]) / 255.0F;
      }
    }
  }

  ImageFolderOptions options_;
  std::vector<std::string> files_;
  std::vector<std::int32_t> labels_;
  std::optional<detail::KeptImages> kept_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE Listing list_folder(std::string const& path) {
  struct Open {
    explicit Open(std::string const& name) : folder{::opendir(name.c_str())} {}
    Open(Open const&) = delete;
    Open& operator=(Open const&) = delete;
    ~Open() {
      if (folder != nullptr) {
        static_cast<void>(::closedir(folder));
      }
    }
    ::DIR* folder;
  };
  Open const open{path};
  if (open.folder == nullptr) {
    throw FileError{path, errno == ENOENT ? std::string{"there is no such folder"}
                                          : std::string{"the folder cannot be opened: "} +
                                                std::strerror(errno)};
  }
  Listing listing;
  errno = 0;
  while (::dirent const* const entry = ::readdir(open.folder)) {
    std::string name = entry->d_name;
    struct ::stat status {};
    if (name != "." && name != "..") {
      if (::stat((path + "/" + name).c_str(), &status) != 0) {
        throw FileError{
            path + "/" + name,
            (errno == ENOENT ? std::string{"this link leads nowhere"}
                             : std::string{"this entry cannot be read: "} + std::strerror(errno)) +
                "; mend it, or take it out of the folder"};
      }
      if (S_ISDIR(status.st_mode)) {
        listing.folders.push_back(std::move(name));
      } else if (S_ISREG(status.st_mode)) {
        listing.files.push_back(std::move(name));
      }
    }
    errno = 0;
  }
  if (errno != 0) {
    throw FileError{path, std::string{"the folder cannot be read: "} + std::strerror(errno)};
  }
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.files.begin(), listing.files.end());
  return listing;
}

/// Whether @p name ends in a dot and one of @p endings, "jpg png", in letters of either size.
TANDEM_ONCE bool ends_in(std::string_view name, std::string_view endings) {
  std::size_t const dot = name.rfind('.');
  std::string ending;
  for (char const c : dot == name.npos ? std::string_view{} : name.substr(dot + 1)) {
    ending += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return !ending.empty() && ending.find(' ') == ending.npos &&
         (' ' + std::string{endings} + ' ').find(' ' + ending + ' ') != std::string::npos;
}

TANDEM_ONCE void list_images(std::string const& path,
                             std::map<std::string, std::vector<std::string>>& images, int depth) {
  if (depth > 32) {
    throw FileError{path, "folders are nested more than 32 deep; does a link lead back?"};
  }
  Listing const listing = list_folder(path);
  for (std::string const& name : listing.files) {
    if (ends_in(name, "jpg jpeg png")) {
      images[path].push_back(name);
    } else if (ends_in(name, "ppm bmp pgm tif tiff webp")) {
      throw FileError{path + "/" + name,
                      "of images .jpg, .jpeg and .png are read; convert it, or "
                      "take it out of the folder"};
    }
  }
  for (std::string const& name : listing.folders) {
    list_images(path + "/" + name, images, depth + 1);
  }
}

TANDEM_ONCE Pixels const& KeptImages::set(std::size_t i, Pixels&& image) const {
  auto own = std::make_unique<Pixels const>(std::move(image));
  Pixels const* others = nullptr;
  return images_[i].compare_exchange_strong(others, own.get(), std::memory_order_acq_rel)
             ? *own.release()
             : *others;
}

}  // namespace tandem::detail

#endif
