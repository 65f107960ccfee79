// SPDX-License-Identifier: Apache-2.0
#include <tandem/kernels/cuda/boxes.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/bfloat16.hpp>

#include "../../support/device_kernels.hpp"

namespace boxes_test {

using namespace tandem;
using tandem::test::DeviceArray;

constexpr int batch = 3;

/// Element (sample, row, column, channel) of the whole images.
float number(int sample, int row, int column, int channel) {
  return static_cast<float>(((sample * 7 + row) * 11 + column) * 13 % 101 + channel);
}

/// f(index, sample, row, column, channel) of all elements of images of @p box.
template <class F>
void each_element(TileBox const& box, int channels, F const& f) {
  std::size_t at = 0;
  for (int b = 0; b < batch; ++b) {
    for (int r = box.row; r < box.row + box.size.height; ++r) {
      for (int c = box.column; c < box.column + box.size.width; ++c) {
        for (int k = 0; k < channels; ++k) {
          f(at++, b, r, c, k);
        }
      }
    }
  }
}

std::int64_t elements(TileBox const& box, int channels) {
  return std::int64_t{batch} * box.pixels() * channels;
}

template <class T>
std::vector<T> numbers(TileBox const& box, int channels) {
  std::vector<T> all(static_cast<std::size_t>(elements(box, channels)));
  each_element(box, channels, [&](std::size_t at, int b, int r, int c, int k) {
    all[at] = static_cast<T>(number(b, r, c, k));
  });
  return all;
}

/// The rows of an image of 20 x 3 pixels, and one box of all of them.
std::vector<TileBox> rows_of_image() {
  std::vector<TileBox> boxes;
  for (int row = 0; row < 20; ++row) {
    boxes.push_back({row, 0, {1, 3}});
  }
  return boxes;
}

template <class T>
void check_pack(int channels) {
  cuda::RankDevice device{cuda::Device{0}};
  TileBox const all{-1, 2, {6, 5}};
  DeviceArray<T> const from{device, numbers<T>(all, channels)};
  std::vector<TileBox> const boxes{{-1, 2, {1, 1}}, {4, 2, {1, 5}},  {0, 6, {4, 1}},
                                   {1, 3, {2, 3}},  {-1, 2, {6, 5}}, {2, 2, {1, 1}},
                                   {3, 4, {2, 2}},  {0, 2, {1, 5}},  {-1, 3, {5, 2}}};
  std::vector<DeviceArray<T>> packed;
  std::vector<cuda::BoxImages<T>> to;
  packed.reserve(boxes.size());
  for (TileBox const& box : boxes) {
    packed.emplace_back(device, elements(box, channels));
    to.push_back({packed.back().data(), box});
  }
  cuda::pack_boxes<T>(device.compute, batch, channels, {from.data(), all}, to);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    CAPTURE(i);
    CHECK(packed[i].host() == numbers<T>(boxes[i], channels));
  }
}

TEST_CASE("pack_boxes: more than one launch has, of channels in packs and alone") {
  check_pack<float>(4);
  check_pack<float>(3);
  check_pack<double>(2);
  check_pack<BFloat16>(8);
}

template <class T>
void check_place(int channels) {
  cuda::RankDevice device{cuda::Device{0}};
  TileBox const all{-1, -1, {22, 5}};
  std::vector<DeviceArray<T>> held;
  std::vector<cuda::BoxImages<T const>> from;
  std::vector<TileBox> const boxes = rows_of_image();
  held.reserve(boxes.size());
  for (TileBox const& box : boxes) {
    held.emplace_back(device, numbers<T>(box, channels));
    from.push_back({held.back().data(), box});
  }
  DeviceArray<T> const to{device, elements(all, channels)};
  auto const lowest = static_cast<T>(-std::numeric_limits<float>::infinity());
  cuda::place_boxes<T>(device.compute, batch, channels, {to.data(), all}, from, lowest);
  std::vector<T> const placed = to.host();
  int wrong = 0;
  each_element(all, channels, [&](std::size_t at, int b, int r, int c, int k) {
    bool const inside = r >= 0 && r < 20 && c >= 0 && c < 3;
    wrong += placed[at] != (inside ? static_cast<T>(number(b, r, c, k)) : lowest) ? 1 : 0;
  });
  CHECK(wrong == 0);
}

TEST_CASE("place_boxes: of more boxes than a launch has, and lowest numbers outside") {
  check_place<float>(4);
  check_place<float>(3);
  check_place<double>(1);
  check_place<BFloat16>(8);
}

template <class T>
void check_add(int channels) {
  cuda::RankDevice device{cuda::Device{0}};
  TileBox const all{2, 0, {19, 4}};  // without the first rows, and with one that nobody has
  std::vector<DeviceArray<T>> held;
  std::vector<cuda::BoxImages<T const>> from;
  std::vector<TileBox> boxes = rows_of_image();
  boxes.push_back({1, 1, {4, 3}});
  held.reserve(boxes.size());
  for (TileBox const& box : boxes) {
    held.emplace_back(device, numbers<T>(box, channels));
    from.push_back({held.back().data(), box});
  }
  DeviceArray<T> const to{device, elements(all, channels)};
  cuda::add_boxes<T>(device.compute, batch, channels, {to.data(), all}, from);
  std::vector<T> const sums = to.host();
  int wrong = 0;
  each_element(all, channels, [&](std::size_t at, int b, int r, int c, int k) {
    int count = 0;
    for (TileBox const& box : boxes) {
      count += box.has(r, c) ? 1 : 0;
    }
    wrong += sums[at] != static_cast<T>(static_cast<float>(count) * number(b, r, c, k)) ? 1 : 0;
  });
  CHECK(wrong == 0);
}

TEST_CASE("add_boxes: sums of what several have, 0 where none has anything") {
  check_add<float>(4);
  check_add<float>(3);
  check_add<double>(2);
  check_add<BFloat16>(8);
}

}  // namespace boxes_test
