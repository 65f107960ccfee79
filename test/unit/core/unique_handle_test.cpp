// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <type_traits>
#include <utility>
#include <vector>

#include <tandem/core/unique_handle.hpp>

namespace unique_handle_test {

std::vector<int> destroyed;

int destroy(int handle) {  // what C libraries' functions return is a code
  destroyed.push_back(handle);
  return 1;
}

using Handle = tandem::UniqueHandle<int, destroy>;

static_assert(!std::is_copy_constructible_v<Handle>);
static_assert(!std::is_copy_assignable_v<Handle>);
static_assert(std::is_nothrow_move_constructible_v<Handle>);
static_assert(std::is_nothrow_move_assignable_v<Handle>);
static_assert(!std::is_convertible_v<int, Handle>);
static_assert(sizeof(Handle) == sizeof(int));

TEST_CASE("a unique handle is destroyed once, at the end of its owner") {
  destroyed.clear();
  {
    Handle const handle{7};
    CHECK(handle.get() == 7);
    CHECK(static_cast<bool>(handle));
    CHECK(destroyed.empty());
  }
  CHECK(destroyed == std::vector{7});
}

TEST_CASE("an empty unique handle destroys nothing") {
  destroyed.clear();
  {
    Handle empty;
    CHECK(!empty);
    CHECK(empty.get() == 0);
    empty.reset();
  }
  CHECK(destroyed.empty());
}

TEST_CASE("a moved unique handle has one owner") {
  destroyed.clear();
  {
    Handle first{1};
    Handle second{std::move(first)};
    CHECK(!first);  // NOLINT(bugprone-use-after-move): empty, as documented
    CHECK(second.get() == 1);
    Handle third{3};
    third = std::move(second);
    CHECK(destroyed == std::vector{3});
    CHECK(third.get() == 1);
    CHECK(!second);  // NOLINT(bugprone-use-after-move)
    Handle& same = third;
    third = std::move(same);
    CHECK(third.get() == 1);
    CHECK(destroyed == std::vector{3});
  }
  CHECK(destroyed == std::vector{3, 1});
}

TEST_CASE("a released unique handle is its taker's to destroy") {
  destroyed.clear();
  {
    Handle handle{5};
    CHECK(handle.release() == 5);
    CHECK(!handle);
  }
  CHECK(destroyed.empty());
}

TEST_CASE("reset destroys at once, and not again at the end") {
  destroyed.clear();
  {
    Handle handle{5};
    handle.reset();
    CHECK(!handle);
    CHECK(destroyed == std::vector{5});
  }
  CHECK(destroyed == std::vector{5});
}

}  // namespace unique_handle_test
