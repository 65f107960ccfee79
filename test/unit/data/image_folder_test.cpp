// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/error.hpp>
#include <tandem/data/augment.hpp>
#include <tandem/data/idx.hpp>
#include <tandem/data/image/image_folder.hpp>
#include <tandem/data/loader.hpp>
#include <tandem/io/file.hpp>
#include <tandem/io/gzip.hpp>

#if defined(TANDEM_IMAGES) && TANDEM_IMAGES
#include <jpeglib.h>
#include <png.h>
#endif

#include "data_files.hpp"
#include "watchdog.hpp"

#if !defined(TANDEM_FASHION_MNIST)
#define TANDEM_FASHION_MNIST "/usr/share/datasets/fashion-mnist"
#endif

namespace image_folder_test {

using doctest::Contains;
using support::Bytes;
using support::TemporaryFolder;
using tandem::FileError;
using tandem::Image;
using tandem::ImageFolder;
using tandem::Pixels;

static_assert(tandem::ClassifiedDataset<ImageFolder<Image<3, 8, 8>>>);
static_assert(tandem::RandomDataset<ImageFolder<Image<3, 8, 8>>>);
static_assert(tandem::ImageDecoder<tandem::NoImages> && !tandem::ImageDecoder<int>);

/// A decoder of a program without libraries: the file is height, width and grey pixels.
struct Plain {
  static Pixels decode(std::span<std::uint8_t const> bytes, std::string const& name) {
    if (bytes.size() < 2) {
      throw FileError{name, "nothing there"};
    }
    return {1, bytes[0], bytes[1], {bytes.begin() + 2, bytes.end()}};
  }
};
template <int C, int H, int W>
using PlainFolder = ImageFolder<Image<C, H, W>, Plain>;

/// An image all of whose pixels are @p value.
Bytes grey(std::uint8_t height, std::uint8_t width, std::uint8_t value) {
  Bytes bytes(2 + std::size_t{height} * width, value);
  bytes[0] = height;
  bytes[1] = width;
  return bytes;
}

template <class D>
std::vector<float> sample(D const& data, std::int64_t index) {
  std::vector<float> x(static_cast<std::size_t>(data.shape().elements()));
  std::vector<std::int32_t> y(1);
  data.read(index, x, y);
  return x;
}

template <class D>
std::vector<float> sample(D const& data, std::int64_t index, tandem::Randomness const& random) {
  std::vector<float> x(static_cast<std::size_t>(data.shape().elements()));
  std::vector<std::int32_t> y(1);
  data.read(index, x, y, random);
  return x;
}

TEST_CASE("ImageFolder has the sorted folders as classes, and samples by class and name") {
  TemporaryFolder const folder;
  folder.write("dog/b.PNG", grey(2, 2, 51));
  folder.write("dog/a.jpeg", grey(2, 2, 102));
  folder.write("dog/notes.txt", {});
  folder.write("dog/jpg", {});
  folder.write("Zebra/deep/er/a.jpg", grey(2, 2, 153));
  folder.write("Zebra/z.jpg", grey(2, 2, 204));
  folder.write("README", {});
  PlainFolder<3, 2, 2> const data{folder.path()};
  CHECK(data.class_names() == std::vector<std::string>{"Zebra", "dog"});
  CHECK(data.classes() == 2);
  CHECK(data.size() == 4);
  CHECK(data.shape() == tandem::image_shape(3, 2, 2));
  CHECK(data.file(1) == folder.path() + "/Zebra/deep/er/a.jpg");
  std::vector<float> const values{0.8F, 0.6F, 0.4F, 0.2F};
  for (std::int64_t i = 0; i < 4; ++i) {
    std::vector<float> x(12);
    std::vector<std::int32_t> y(1);
    data.read(i, x, y);
    CHECK(x == std::vector<float>(12, values[static_cast<std::size_t>(i)]));
    CHECK(y[0] == i / 2);
  }
}

TEST_CASE("ImageFolder sorts the folders in a class by their whole paths, as torchvision") {
  TemporaryFolder const folder;
  std::vector<std::string> const sorted{"a/z.png",     "a/x/a.png",   "a/x/b.png",   "a/x y/a.png",
                                        "a/x-y/a.png", "a/x.1/a.png", "a/x/y/a.png", "a/x0/a.png"};
  for (std::string const& name : sorted) {
    folder.write(name, grey(1, 1, 0));
  }
  PlainFolder<1, 1, 1> const data{folder.path()};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    names.push_back(data.file(i).substr(folder.path().size() + 1));
  }
  CHECK(names == sorted);  // of sorted(os.walk("a")) each folder's sorted names
}

TEST_CASE("ImageFolder takes names of classes, so that two folders have the same labels") {
  TemporaryFolder const folder;
  folder.write("train/a/1.png", grey(1, 1, 0));
  folder.write("train/b/1.png", grey(1, 1, 0));
  folder.write("test/b/1.png", grey(1, 1, 0));
  folder.write("other/c/1.png", grey(1, 1, 0));
  using Folder = PlainFolder<1, 1, 1>;
  Folder const train{folder.path() + "/train"};
  Folder const test{folder.path() + "/test", {.class_names = train.class_names()}};
  CHECK(test.classes() == 2);
  std::vector<float> x(1);
  std::vector<std::int32_t> y(1);
  test.read(0, x, y);
  CHECK(y[0] == 1);
  CHECK_THROWS_WITH_AS((Folder{folder.path() + "/other", {.class_names = train.class_names()}}),
                       Contains("other/c': there is no such class among ImageFolderOptions"),
                       FileError);
}

TEST_CASE("ImageFolder says what is wrong with a folder") {
  TemporaryFolder const folder;
  using Folder = PlainFolder<1, 2, 2>;
  CHECK_THROWS_WITH_AS(Folder{folder.path() + "/none"}, Contains("there is no such folder"),
                       FileError);
  CHECK_THROWS_WITH_AS(Folder{folder.write("file", {})}, Contains("the folder cannot be opened: "),
                       FileError);
  CHECK_THROWS_WITH_AS(Folder{folder.path()},
                       Contains("has no folders in it, expected one for each class"), FileError);
  folder.write("a/x.gif", {});
  CHECK_THROWS_WITH_AS(Folder{folder.path()}, Contains("/a': the folder of a class has no .jpg"),
                       FileError);
  std::string const webp = folder.write("a/x.WebP", {});
  CHECK_THROWS_WITH_AS(Folder{folder.path()},
                       ("'" + webp +
                        "': of images .jpg, .jpeg and .png are read; convert it, or take it out of "
                        "the folder")
                           .c_str(),
                       FileError);
  std::filesystem::remove(webp);
  std::filesystem::create_directory_symlink("..", folder.path() + "/a/round");
  CHECK_THROWS_WITH_AS(Folder{folder.path()}, Contains("does a link lead back?"), FileError);
  std::filesystem::remove(folder.path() + "/a/round");
  folder.write("a/1.png", grey(2, 2, 0));
  CHECK(Folder{folder.path()}.size() == 1);
  for (std::string const link : {"/a/2.png", "/b"}) {
    std::filesystem::create_symlink("none", folder.path() + link);
    CHECK_THROWS_WITH_AS(
        Folder{folder.path()},
        Contains((link + "': this link leads nowhere; mend it, or take it out of").c_str()),
        FileError);
    std::filesystem::remove(folder.path() + link);
  }
}

TEST_CASE("ImageFolder checks its options") {
  auto const refused = [](tandem::ImageFolderOptions const& options, char const* sentence) {
    CHECK_THROWS_WITH_AS((PlainFolder<1, 9, 8>{"none", options}), Contains(sentence),
                         tandem::ContractError);
  };
  refused({.resize = 8}, "must be at least the sample's height and width");
  refused({.resize = -1}, "must be at least the sample's height and width");
  refused({.resize = 65537}, "at most 65536");
  refused({.resize = 9, .stretch = true}, "give either resize");
  refused({.random_crop = tandem::RandomResizedCrop{.min_area = 0}}, "0 < min_area");
  refused({.random_crop = tandem::RandomResizedCrop{.min_ratio = 3}}, "0 < min_ratio");
}

TEST_CASE("ImageFolder cuts random pieces by seed, epoch and sample, and evaluates the middle") {
  TemporaryFolder const folder;
  Bytes ramp(2 + 20 * 30);
  ramp[0] = 20;
  ramp[1] = 30;
  for (std::size_t i = 2; i < ramp.size(); ++i) {
    ramp[i] = static_cast<std::uint8_t>(i * 5 / 12);
  }
  folder.write("a/1.png", ramp);
  folder.write("a/2.png", ramp);
  for (bool const keep : {false, true}) {
    PlainFolder<1, 8, 8> const data{folder.path(),
                                    {.random_crop = tandem::RandomResizedCrop{}, .keep = keep}};
    PlainFolder<1, 8, 8> const plain{folder.path(), {.keep = keep}};
    tandem::Randomness const random{1, 2, 0};
    auto const piece = sample(data, 0, random);
    CHECK(piece == sample(data, 0, random));
    CHECK(piece != sample(data, 0, {1, 3, 0}));
    CHECK(piece != sample(data, 0, {2, 2, 0}));
    CHECK(piece != sample(data, 1, {1, 2, 1}));
    CHECK(sample(data, 0) == sample(plain, 0));
    CHECK(sample(plain, 0) == sample(plain, 0, random));
    CHECK(sample(plain, 0) == sample(plain, 0));
  }
}

TEST_CASE("ImageFolder keeps images once they are decoded, or reads them anew") {
  for (bool const crop : {false, true}) {
    TemporaryFolder const folder;
    std::string const file = folder.write("a/1.png", grey(4, 4, 255));
    tandem::ImageFolderOptions options{.keep = true};
    if (crop) {
      options.random_crop = tandem::RandomResizedCrop{};
    }
    PlainFolder<1, 2, 2> const kept{folder.path(), options};
    PlainFolder<1, 2, 2> const anew{folder.path()};
    std::vector<float> const white(4, 1.0F);
    CHECK(sample(kept, 0) == white);
    folder.write("a/1.png", {4});
    CHECK(sample(kept, 0) == white);
    CHECK(sample(kept, 0, {}) == white);
    CHECK_THROWS_WITH_AS(sample(anew, 0), ("'" + file + "': nothing there").c_str(), FileError);
  }
}

TEST_CASE("ImageFolder is read by several threads at once, and keeps each image once") {
  tandem::test::Watchdog const watchdog{"ImageFolder with several threads"};
  TemporaryFolder const folder;
  for (std::uint8_t i = 0; i < 40; ++i) {
    folder.write("a/" + std::to_string(i) + ".png", grey(9, 7, i));
  }
  for (bool const keep : {false, true}) {
    PlainFolder<1, 4, 4> const data{folder.path(),
                                    {.random_crop = tandem::RandomResizedCrop{}, .keep = keep}};
    auto const twice = [&](int threads) {
      std::vector<float> all;
      for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
        tandem::Loader loader{data, {.batch = 8, .epoch = epoch, .threads = threads}};
        for (tandem::Batch<float, std::int32_t> batch; loader.next(batch);) {
          all.insert(all.end(), batch.x, batch.x + batch.size * 16);
        }
      }
      return all;
    };
    CHECK(twice(4) == twice(1));
  }
}

TEST_CASE("ImageFolder without the libraries says how to get them") {
  TemporaryFolder const folder;
  std::string const file = folder.write("a/1.png", {1});
  ImageFolder<Image<1, 2, 2>, tandem::NoImages> const data{folder.path()};
  CHECK_THROWS_WITH_AS(sample(data, 0), Contains("a/1.png': this program was compiled without"),
                       FileError);
}

TEST_CASE("RandomResizedCrop takes pieces of the area and the ratio that it says") {
  tandem::RandomResizedCrop const crop{.min_area = 0.2, .max_area = 0.5};
  std::set<int> tops;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    tandem::PixelBox const box = crop.box(200, 300, {{i, 5, 9, 1}});
    double const area = static_cast<double>(box.height) * box.width / (200 * 300);
    double const ratio = static_cast<double>(box.width) / box.height;
    bool const fits =
        box.top >= 0 && box.left >= 0 && box.top + box.height <= 200 && box.left + box.width <= 300;
    REQUIRE(fits);
    REQUIRE((area > 0.19 && area < 0.51));
    REQUIRE((ratio > 0.74 && ratio < 1.36));
    tops.insert(box.top);
  }
  CHECK(*tops.begin() == 0);
  CHECK(tops.size() > 90);
  // What never fits: the middle, as wide as the ratio lets it be.
  tandem::RandomResizedCrop const whole{.min_area = 1, .max_area = 1};
  CHECK(whole.box(10, 90, {}) == tandem::PixelBox{0, 38, 10, 13});
  CHECK(whole.box(90, 9, {}) == tandem::PixelBox{39, 0, 12, 9});
}

TEST_CASE("RandomResizedCrop makes its piece as large as the sample") {
  tandem::Shape const shape = tandem::image_shape(2, 6, 5);
  std::vector<float> x(60, 0.25F);
  std::fill(x.begin() + 30, x.end(), -2.0F);
  std::vector<float> const before = x;
  tandem::RandomResizedCrop const crop;
  CHECK(crop.output(shape) == shape);
  crop.apply(x, shape, {{1, 2, 3, 4}});
  for (std::size_t i = 0; i < x.size(); ++i) {
    CHECK(x[i] == doctest::Approx(before[i]));  // of one value are all pieces
  }
}

/// Checks one box of an image, resized: each of several windows of the result is that part of it.
template <class A>
void check_windows(std::mt19937& random) {
  using Value = typename A::Value;
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  auto const size = [](int n) { return static_cast<std::size_t>(n); };
  int const rows = 1 + below(12);
  int const columns = 1 + below(12);
  std::size_t const channels = size(1 + below(4));
  std::vector<Value> image(size(rows * columns) * channels);
  for (Value& value : image) {
    value = static_cast<Value>(below(256));
  }
  tandem::PixelBox box{below(rows), below(columns), 1, 1};
  box.height += below(rows - box.top);
  box.width += below(columns - box.left);
  int const height = below(2) == 0 ? box.height : 1 + below(20);  // an axis may keep its size
  int const width = below(2) == 0 ? box.width : 1 + below(20);
  auto const part = [&](tandem::PixelBox const& window) {
    std::size_t const count = size(window.height * window.width) * channels;
    std::vector<Value> out(count + 128, Value{77});  // nothing is written after the window
    tandem::detail::resample<A>(image.data(), size(columns) * channels, channels, box, height,
                                width, window, out.data());
    CHECK(std::count(out.begin() + static_cast<std::ptrdiff_t>(count), out.end(), Value{77}) ==
          128);
    out.resize(count);
    return out;
  };
  std::vector<Value> const whole = part({0, 0, height, width});
  for (int i = 0; i < 4; ++i) {
    tandem::PixelBox window{below(height), below(width), 1, 1};
    window.height += below(height - window.top);
    window.width += below(width - window.left);
    std::vector<Value> expected;
    for (int r = window.top; r < window.top + window.height; ++r) {
      auto const begin =
          whole.begin() + static_cast<std::ptrdiff_t>(size(r * width + window.left) * channels);
      expected.insert(expected.end(), begin,
                      begin + static_cast<std::ptrdiff_t>(size(window.width) * channels));
    }
    REQUIRE(part(window) == expected);
  }
}

TEST_CASE("A window of a resized image is that part of the whole, whichever axis is scaled") {
  std::mt19937 random{18};
  for (int i = 0; i < 500; ++i) {
    check_windows<tandem::detail::ByteArithmetic>(random);
    check_windows<tandem::detail::FloatArithmetic>(random);
  }
}

TEST_CASE("ImageFolder cuts the middle out of images that keep their height or width") {
  TemporaryFolder const folder;
  Bytes image(2 + 12 * 12);
  std::iota(image.begin() + 2, image.end(), std::uint8_t{0});
  image[0] = 12;
  image[1] = 12;
  folder.write("a/1.png", image);
  std::vector<float> const x = sample(PlainFolder<1, 8, 8>{folder.path(), {.resize = 12}}, 0);
  for (std::size_t i = 0; i < 64; ++i) {
    CHECK(x[i] == static_cast<float>((i / 8 + 2) * 12 + i % 8 + 2) / 255.0F);
  }
  CHECK(sample(PlainFolder<1, 6, 12>{folder.path()}, 0)[0] == 36.0F / 255.0F);
}

#if defined(TANDEM_IMAGES) && TANDEM_IMAGES

std::string const images = std::string{TANDEM_TEST_DATA} + "/images/";

/// The largest difference of bytes.
int difference(Pixels const& image, std::string const& expected) {
  Bytes const bytes = tandem::read_file(images + expected + ".rgb");
  REQUIRE(image.bytes.size() == bytes.size());
  int most = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    most = std::max(most, std::abs(image.bytes[i] - bytes[i]));
  }
  return most;
}

Pixels decoded(std::string const& name, int channels = 3) {
  return tandem::with_channels(tandem::ImageDecode::decode(tandem::read_file(images + name), name),
                               channels);
}

char const* const pngs[] = {"rgb.png",        "grey.png",    "rgba.png",
                            "grey_alpha.png", "palette.png", "bits.png"};
char const* const jpegs[] = {"baseline.jpg", "grey.jpg", "progressive.jpg", "cmyk.jpg"};

TEST_CASE(
    "PNG files of every kind are read as Pillow reads them, and JPEG files but for rounding") {
  for (char const* const name : pngs) {
    CAPTURE(name);
    CHECK(difference(decoded(name), name) == 0);
  }
  for (char const* const name : jpegs) {
    CAPTURE(name);
    CHECK(difference(decoded(name), name) <= 2);  // other libraries round otherwise
  }
  CHECK(difference(decoded("rgb.png", 1), "rgb.png.grey") == 0);
  Pixels const opaque = decoded("rgb.png", 4);
  Pixels const transparent = decoded("rgba.png", 4);
  CHECK(opaque.bytes[3] == 255);
  CHECK(transparent.bytes[3] == 5);  // of the gradient's first rows
}

TEST_CASE("CMYK in JPEG is stored inverted, with Adobe's marker or without") {
  Bytes file = tandem::read_file(images + "cmyk.jpg");
  REQUIRE(std::string{file.begin() + 6, file.begin() + 11} == "Adobe");  // a marker of 16 bytes
  file.erase(file.begin() + 2, file.begin() + 18);
  CHECK(difference(tandem::ImageDecode::decode(file, "f"), "cmyk.jpg") <= 2);
}

TEST_CASE("resize has the bits of Pillow's bilinear filter") {
  Pixels const image = decoded("rgb.png");
  CHECK(difference(tandem::resize(image, 29, 13), "rgb.png.stretched") == 0);
  CHECK(difference(tandem::resize(image, {3, 5, 11, 17}, 24, 24, {0, 0, 24, 24}), "rgb.png.box") ==
        0);
  CHECK(tandem::resize(image, 23, 37).bytes == image.bytes);
}

/// Sample 0 of a folder with the one file @p name against Pillow's.
template <int H, int W>
int folder_difference(std::string const& name, tandem::ImageFolderOptions const& options,
                      std::string const& expected) {
  TemporaryFolder const folder;
  folder.write("a/" + name, tandem::read_file(images + name));
  ImageFolder<Image<3, H, W>> const data{folder.path(), options};
  std::vector<float> const x = sample(data, 0);
  Pixels image{3, H, W, Bytes(x.size())};
  for (std::size_t i = 0; i < x.size(); ++i) {
    image.bytes[i % (H * W) * 3 + i / (H * W)] = static_cast<std::uint8_t>(x[i] * 255 + 0.5F);
  }
  return difference(image, expected);
}

TEST_CASE("ImageFolder resizes and cuts out the middle as torchvision on Pillow's images") {
  CHECK(folder_difference<20, 20>("rgb.png", {.resize = 20}, "rgb.png.smaller") == 0);
  CHECK(folder_difference<20, 20>("rgb.png", {}, "rgb.png.smaller") == 0);
  CHECK(folder_difference<31, 60>("rgb.png", {.resize = 60}, "rgb.png.larger") == 0);
  CHECK(folder_difference<9, 10>("portrait.png", {.resize = 11}, "portrait.png.middle") == 0);
  CHECK(folder_difference<29, 13>("rgb.png", {.stretch = true}, "rgb.png.stretched") == 0);
  CHECK(folder_difference<23, 37>("rgb.png", {}, "rgb.png") == 0);
}

/// An Adam7 image of 16 bits, grey or RGB with alpha: sample i of it is 257 i.
Bytes interlaced(int width, int height, int channels) {
  Bytes file;
  ::png_structp png = ::png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  ::png_infop info = ::png_create_info_struct(png);
  ::png_set_write_fn(
      png, &file,
      [](::png_structp writer, ::png_bytep bytes, std::size_t count) {
        auto& to = *static_cast<Bytes*>(::png_get_io_ptr(writer));
        to.insert(to.end(), bytes, bytes + count);
      },
      nullptr);
  ::png_set_IHDR(png, info, static_cast<unsigned>(width), static_cast<unsigned>(height), 16,
                 channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGBA, PNG_INTERLACE_ADAM7,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  ::png_write_info(png, info);
  Bytes samples;
  for (int i = 0; i < width * height * channels; ++i) {
    samples.insert(samples.end(), 2, static_cast<std::uint8_t>(i));
  }
  std::vector<::png_bytep> rows;
  for (int r = 0; r < height; ++r) {
    rows.push_back(samples.data() + r * width * channels * 2);
  }
  ::png_write_image(png, rows.data());
  ::png_write_end(png, nullptr);
  ::png_destroy_write_struct(&png, &info);
  return file;
}

TEST_CASE("Interlaced PNG files of 16 bits are read") {
  for (int const channels : {1, 4}) {
    Pixels const image = tandem::ImageDecode::decode(interlaced(9, 5, channels), "f");
    CHECK(image.channels == channels);
    CHECK(image.height == 5);
    CHECK(image.width == 9);
    bool same = true;
    for (std::size_t i = 0; i < image.bytes.size(); ++i) {
      same = same && image.bytes[i] == static_cast<std::uint8_t>(i);
    }
    CHECK(same);
  }
}

void check_refused(Bytes const& bytes, char const* sentence, std::int64_t limit = 1 << 20) {
  CHECK_THROWS_WITH_AS(static_cast<void>(tandem::ImageDecode::decode(bytes, "f", limit)), sentence,
                       FileError);
}

TEST_CASE("What is no image, truncated or too large is refused in one sentence") {
  check_refused({}, "'f': the file is empty, expected a JPEG or PNG image");
  check_refused({'G', 'I', 'F', '8'},
                "'f': this is no JPEG or PNG image, by its first bytes; convert it, or take it out "
                "of the folder");
  Bytes png = tandem::read_file(images + "rgb.png");
  for (std::ptrdiff_t lost = 1; lost <= 20; ++lost) {
    Bytes const cut{png.begin(), png.end() - lost};
    if (lost <= 12) {  // the last chunk has 12 bytes and no pixels
      CHECK(difference(tandem::ImageDecode::decode(cut, "f"), "rgb.png") == 0);
    } else {
      check_refused(cut, "'f': the PNG file cannot be read: the file is truncated");
    }
  }
  check_refused(png,
                "'f': an image of 37 x 23 pixels is larger than what is read, 850 pixels and 65535 "
                "rows or columns",
                850);
  png[png.size() - 14] ^= 1U;
  check_refused(png, "'f': the PNG file cannot be read: IDAT: CRC error");
  Bytes const jpeg = tandem::read_file(images + "baseline.jpg");
  check_refused({jpeg.begin(), jpeg.end() - 20},
                "'f': the JPEG file cannot be read: the file is truncated");
  check_refused({jpeg.begin(), jpeg.begin() + 200},
                "'f': the JPEG file cannot be read: the file is truncated");
  check_refused({0xFF, 0xD8, 0xFF, 0xD9},
                "'f': the JPEG file cannot be read: JPEG datastream contains no image");
}

/// A grey image of 8 x 8 as three channels, each of which has a scan of its own.
Bytes three_scans() {
  ::jpeg_compress_struct info;
  ::jpeg_error_mgr errors;
  info.err = ::jpeg_std_error(&errors);
  ::jpeg_create_compress(&info);
  unsigned char* file = nullptr;
  unsigned long size = 0;
  ::jpeg_mem_dest(&info, &file, &size);
  info.image_width = 8;
  info.image_height = 8;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  ::jpeg_set_defaults(&info);
  ::jpeg_scan_info scans[3] = {};
  for (int c = 0; c < 3; ++c) {
    scans[c] = {1, {c}, 0, 63, 0, 0};
  }
  info.scan_info = scans;
  info.num_scans = 3;
  ::jpeg_start_compress(&info, TRUE);
  Bytes row(24, 77);
  for (int r = 0; r < 8; ++r) {
    ::JSAMPROW rows[1] = {row.data()};
    ::jpeg_write_scanlines(&info, rows, 1);
  }
  ::jpeg_finish_compress(&info);
  Bytes bytes{file, file + size};
  ::jpeg_destroy_compress(&info);
  std::free(file);
  return bytes;
}

TEST_CASE("A JPEG file with scans without an end is refused") {
  Bytes bytes = three_scans();
  CHECK(tandem::ImageDecode::decode(bytes, "f").bytes == Bytes(192, 77));
  std::uint8_t const start[] = {0xFF, 0xDA};
  auto const last = std::find_end(bytes.begin(), bytes.end(), std::begin(start), std::end(start));
  Bytes const scan{last, bytes.end() - 2};
  for (int i = 0; i < 120; ++i) {
    bytes.insert(bytes.end() - 2, scan.begin(), scan.end());
  }
  check_refused(
      bytes, "'f': the JPEG file cannot be read: it has more than 100 scans, and takes for ever");
}

TEST_CASE("Damaged images are refused or read, and nothing else happens") {
  int read = 0;
  int refused = 0;
  auto const attempt = [&](Bytes const& bytes) {
    try {
      Pixels const image = tandem::ImageDecode::decode(bytes, "f", 1 << 16);
      CHECK(image.bytes.size() == static_cast<std::size_t>(image.channels) *
                                      static_cast<std::size_t>(image.height) *
                                      static_cast<std::size_t>(image.width));
      ++read;
    } catch (FileError const&) {
      ++refused;
    }
  };
  for (std::string const name : {"rgb.png", "palette.png", "baseline.jpg", "progressive.jpg"}) {
    Bytes const bytes = tandem::read_file(images + name);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      attempt({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(i)});
      Bytes changed = bytes;
      changed[i] ^= static_cast<std::uint8_t>(1U << i % 8);
      attempt(changed);
    }
  }
  CHECK(read > 100);
  CHECK(refused > 3000);
}

TEST_CASE(
    "ImageFolder of the files that examples/image_folder/fashion_png.py writes is Fashion-MNIST") {
  std::string const source = TANDEM_FASHION_MNIST;
  if (!tandem::folder_exists(source) || std::is_same_v<tandem::Inflate, tandem::NoZlib>) {
    MESSAGE("skipped: no folder " << source << ", install dataset-fashion-mnist; or no zlib");
    return;
  }
  TemporaryFolder const folder;
  std::string const script =
      std::string{TANDEM_TEST_DATA} + "/../../examples/image_folder/fashion_png.py";
  REQUIRE(std::system(
              ("python3 '" + script + "' '" + folder.path() + "' 150 '" + source + "'").c_str()) ==
          0);
  std::string const files[] = {source + "/t10k-images-idx3-ubyte",
                               source + "/t10k-labels-idx1-ubyte"};
  tandem::IdxSplit const test{tandem::read_plain_or_gzip<tandem::Inflate>(files[0]),
                              tandem::read_plain_or_gzip<tandem::Inflate>(files[1]), files[0],
                              files[1]};
  ImageFolder<Image<1, 28, 28>> const data{folder.path() + "/test"};
  CHECK(data.size() == 150);
  CHECK(data.classes() == 10);
  CHECK(data.class_names()[9] == "9-ankle-boot");
  for (std::int64_t i = 0; i < data.size(); ++i) {
    std::string const file = data.file(i);
    std::int64_t const index = std::stoi(file.substr(file.size() - 9));
    std::vector<float> x(784);
    std::vector<std::int32_t> y(1);
    test.read(index, x, y);
    CHECK(sample(data, i) == x);
    CHECK(data.class_names()[static_cast<std::size_t>(y[0])] ==
          std::filesystem::path{file}.parent_path().filename());
  }
}

#else

TEST_CASE("JPEG and PNG files are tested where there are libjpeg and libpng") {
  MESSAGE("skipped: compiled without them, install libjpeg-dev and libpng-dev");
}

#endif

}  // namespace image_folder_test
