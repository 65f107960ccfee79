// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include <doctest/doctest.h>

#include <tandem/core/shape.hpp>

namespace shape_test {

using tandem::Shape;

static_assert(tandem::Image<3, 224, 224>::shape == tandem::image_shape(3, 224, 224));
static_assert(tandem::Vector<10>::shape == tandem::vector_shape(10));
static_assert(tandem::image_shape(10, 1, 1) != tandem::vector_shape(10));
static_assert(!Shape{}.valid());
static_assert(!tandem::image_shape(3, 0, 4).valid());

TEST_CASE("a shape counts its elements") {
  CHECK(tandem::image_shape(3, 4, 5).elements() == 60);
  CHECK(tandem::vector_shape(7).elements() == 7);
  CHECK(Shape{4, {2, 3, 5, 7}}.elements() == 210);
}

TEST_CASE("a shape of rank 0 has no elements") {
  CHECK(Shape{}.elements() == 0);
  CHECK_FALSE(Shape{}.valid());
}

TEST_CASE("elements are counted in 64 bits") {
  constexpr int side = 65536;
  CHECK(tandem::image_shape(2, side, side).elements() == 2 * std::int64_t{side} * side);
}

TEST_CASE("extents are read outermost first") {
  Shape const shape = tandem::image_shape(3, 4, 5);
  CHECK(shape[0] == 3);
  CHECK(shape[1] == 4);
  CHECK(shape[2] == 5);
}

TEST_CASE("a shape is spelled with its extents") {
  CHECK(to_string(tandem::image_shape(3, 32, 16)) == "3x32x16");
  CHECK(to_string(tandem::vector_shape(10)) == "10");
  CHECK(to_string(Shape{}) == "none");
}

}  // namespace shape_test
