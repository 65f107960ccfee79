// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/core/mesh.hpp>

namespace mesh_test {

using namespace tandem;

constexpr Mesh data(int n) { return {Axis::data, n}; }
constexpr Mesh model(int n) { return {Axis::model, n}; }
constexpr Mesh tensor(int n) { return {Axis::tensor, n}; }

constexpr Mesh hybrid = data(2) * model(3);

static_assert(hybrid.size() == 6 && hybrid.extent(Axis::data) == 2 &&
              hybrid.extent(Axis::model) == 3 && hybrid.extent(Axis::tensor) == 1);
static_assert(hybrid.coordinates(4) == Coordinates{.data = 1, .model = 1});
static_assert(hybrid.rank({.data = 1, .model = 2}) == 5);
static_assert(hybrid.groups(Axis::data) == 3 && hybrid.groups(Axis::model) == 2);
static_assert(hybrid.group(1, Axis::model) == MeshGroup{.first = 3, .stride = 1, .count = 3});
static_assert(hybrid.group(2, Axis::data) == MeshGroup{.first = 2, .stride = 3, .count = 2});
static_assert(hybrid.along(Axis::data, 5) == hybrid.group(2, Axis::data));
static_assert(hybrid.leads(2, Axis::data) && !hybrid.leads(2, Axis::model));

static_assert(Mesh{}.size() == 1 && Mesh{}.coordinates(0) == Coordinates{});
static_assert(Mesh{} * hybrid == hybrid && hybrid * Mesh{} == hybrid);
static_assert(data(1) == Mesh{} && data(2) * model(1) == data(2));
static_assert(data(2) * model(3) != model(3) * data(2));

// Replicas of replicas: one axis.
static_assert(data(2) * (data(3) * model(4)) == data(6) * model(4));
static_assert(data(2) * data(3) * model(4) == data(6) * model(4));

// Hybrid<DataParallel<2>, Pipeline<..., Split<6>, Split<6>>, TensorParallel<2>>: slices of one part
// of one replica are neighbours.
constexpr Mesh three = data(2) * model(2) * tensor(2);
static_assert(three.coordinates(5) == Coordinates{.data = 1, .model = 0, .tensor = 1});
static_assert(three.group(1, Axis::tensor) == MeshGroup{.first = 2, .stride = 1, .count = 2});
static_assert(three.group(1, Axis::model) == MeshGroup{.first = 1, .stride = 2, .count = 2});
static_assert(three.group(3, Axis::data) == MeshGroup{.first = 3, .stride = 4, .count = 2});

// Every mesh of up to three axes in each order, of extents up to 4.
template <class F>
void for_small_meshes(F const& f) {
  for (int d = 1; d <= 4; ++d) {
    for (int m = 1; m <= 4; ++m) {
      for (int t = 1; t <= 4; ++t) {
        for (Mesh const& mesh :
             {data(d) * model(m) * tensor(t), data(d) * (tensor(t) * model(m)),
              model(m) * data(d) * tensor(t), model(m) * (tensor(t) * data(d)),
              tensor(t) * data(d) * model(m), tensor(t) * (model(m) * data(d))}) {
          REQUIRE(mesh.size() == d * m * t);
          f(mesh);
        }
      }
    }
  }
}

std::string refusal(auto const& f) {
  try {
    f();
  } catch (ContractError const& e) {
    return e.what();
  }
  return "nothing was refused";
}
bool says(std::string const& text, char const* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("each rank has coordinates of its own, and they give it back") {
  for_small_meshes([](Mesh const& mesh) {
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      Coordinates const at = mesh.coordinates(rank);
      seen.insert({at.data, at.model, at.tensor});
      CHECK(mesh.rank(at) == rank);
      for (Axis const axis : all_axes) {
        CHECK(mesh.coordinate(rank, axis) == at[axis]);
        CHECK(at[axis] < mesh.extent(axis));
        CHECK(mesh.leads(rank, axis) == (at[axis] == 0));
      }
    }
    CHECK(static_cast<int>(seen.size()) == mesh.size());
  });
}

TEST_CASE(
    "the groups along an axis are all ranks, each once; in a group only that coordinate differs") {
  for_small_meshes([](Mesh const& mesh) {
    for (Axis const axis : all_axes) {
      std::set<int> seen;
      int last_first = -1;
      for (int g = 0; g < mesh.groups(axis); ++g) {
        MeshGroup const group = mesh.group(g, axis);
        CHECK(group.first > last_first);
        last_first = group.first;
        REQUIRE(group.count == mesh.extent(axis));
        for (int i = 0; i < group.count; ++i) {
          seen.insert(group[i]);
          CHECK(mesh.group_of(group[i], axis) == g);
          CHECK(mesh.along(axis, group[i]) == group);
          Coordinates at = mesh.coordinates(group.first);
          at[axis] = i;
          CHECK(mesh.coordinates(group[i]) == at);
        }
      }
      CHECK(static_cast<int>(seen.size()) == mesh.size());
    }
  });
}

TEST_CASE("the first part of a product is the slowest") {
  for_small_meshes([](Mesh const& mesh) {
    for (int n : {1, 2, 3}) {
      if (mesh.extent(Axis::data) > 1) {
        continue;
      }
      Mesh const outside = data(n) * mesh;
      Mesh const inside = mesh * data(n);
      for (int rank = 0; rank < outside.size(); ++rank) {
        Coordinates at = mesh.coordinates(rank % mesh.size());
        at.data = rank / mesh.size();
        CHECK(outside.coordinates(rank) == at);
        at = mesh.coordinates(rank / n);
        at.data = rank % n;
        CHECK(inside.coordinates(rank) == at);
      }
    }
  });
}

TEST_CASE("some ranks in a row have whole groups where each is in or out") {
  for_small_meshes([](Mesh const& mesh) {
    for (Axis const axis : all_axes) {
      for (int first = 0; first <= mesh.size(); ++first) {
        for (int count = 0; first + count <= mesh.size(); ++count) {
          bool whole = true;
          for (int g = 0; g < mesh.groups(axis); ++g) {
            int in = 0;
            for (int i = 0; i < mesh.extent(axis); ++i) {
              int const rank = mesh.group(g, axis)[i];
              in += first <= rank && rank < first + count;
            }
            whole = whole && (in == 0 || in == mesh.extent(axis));
          }
          if (mesh.has_whole_groups(axis, first, count) != whole) {
            FAIL("axis " << static_cast<int>(axis) << ", first " << first << ", count " << count);
          }
        }
      }
    }
  });
  CHECK(hybrid.has_whole_groups(Axis::model, 3, 3));
  CHECK(!hybrid.has_whole_groups(Axis::model, 2, 3));
  CHECK(!hybrid.has_whole_groups(Axis::data, 3, 3));
}

TEST_CASE("an axis without a rank is refused") {
  CHECK(says(refusal([] { return Mesh(Axis::data, 0); }),
             "Mesh{axis, extent}: there is no rank along the axis; give 1 or more"));
  CHECK(says(refusal([] { return Mesh(Axis::model, -1); }), "give 1 or more"));
}

TEST_CASE("an axis in two places is refused, and so are more ranks than there are numbers") {
  CHECK(says(refusal([] { return data(2) * model(2) * data(2); }),
             "an axis stands in one place; give its whole extent on one side"));
  CHECK(
      says(refusal([] { return data(2) * (model(2) * data(2)); }), "an axis stands in one place"));
  CHECK(data(2) * model(1) * data(2) == data(4));
  Mesh const large = data(1 << 20) * model(1 << 10);
  CHECK(large.size() == 1 << 30);
  CHECK(says(refusal([&] { return large * tensor(2); }), "more ranks than an int can count"));
}

TEST_CASE("ranks, groups and coordinates that are not there are refused") {
  char const* const ranks = "they are numbered from 0 to mesh.size() - 1";
  CHECK(says(refusal([] { return hybrid.coordinate(6, Axis::data); }), ranks));
  CHECK(says(refusal([] { return hybrid.coordinates(-1); }), ranks));
  CHECK(says(refusal([] { return hybrid.along(Axis::model, 6); }), ranks));
  char const* const groups = "they are numbered from 0 to mesh.groups(axis) - 1";
  CHECK(says(refusal([] { return hybrid.group(3, Axis::data); }), groups));
  CHECK(says(refusal([] { return hybrid.group(-1, Axis::data); }), groups));
  char const* const at = "along each axis they are from 0 to its extent - 1";
  CHECK(says(refusal([] { return hybrid.rank({.data = 2}); }), at));
  CHECK(says(refusal([] { return hybrid.rank({.tensor = 1}); }), at));
}

}  // namespace mesh_test
