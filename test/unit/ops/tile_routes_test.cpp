// SPDX-License-Identifier: Apache-2.0
// What goes from tile to tile: boxes, who packs them, and where they lie in scratch memory.

#include <tandem/ops/tile_routes.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

namespace tile_routes_test {

using namespace tandem;

/// Of images of 3 channels, 8 rows and 12 columns in tiles of 4 x 4.
Node exchange(Dealt dealt, Halo const& halo = {}) {
  Node node{.kind = NodeKind::exchange};
  Shape const tile = image_shape(3, 4 + halo.top + halo.bottom, 4 + halo.left + halo.right);
  bool const gathers = dealt == Dealt::gather;
  node.sharing.dealt = dealt;
  node.sharing.tiles = {2, 3};
  node.sharing.halo = halo;
  node.in = dealt == Dealt::cut ? image_shape(3, 8, 12) : image_shape(3, 4, 4);
  node.out = gathers ? image_shape(3, 8, 12) : tile;
  return node;
}

TEST_CASE("a halo comes from the tiles beside a tile, and its gradient goes back the same way") {
  Node const node = exchange(Dealt::halo, {.top = 1, .bottom = 1, .left = 2, .right = 1});
  TileRoutes const forward{node, 4, false};  // the middle one below
  CHECK(forward.here() == TileBox{4, 4, {4, 4}});
  CHECK(forward.there() == TileBox{3, 2, {6, 7}});
  REQUIRE(forward.routes().size() == 5);
  TileRoute const& corner = forward.routes()[0];
  CHECK(corner.peer == 0);
  CHECK(corner.in == TileBox{3, 2, {1, 2}});
  CHECK(corner.out == TileBox{4, 4, {1, 1}});  // what stands below and right of tile 0
  TileRoute const& right = forward.routes()[4];
  CHECK(right.peer == 5);
  CHECK(right.in == TileBox{4, 8, {4, 1}});
  CHECK(right.out == TileBox{4, 6, {4, 2}});

  TileRoutes const backward{node, 4, true};
  REQUIRE(backward.routes().size() == 5);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(backward.routes()[i].out == forward.routes()[i].in);
    CHECK(backward.routes()[i].in == forward.routes()[i].out);
    CHECK(forward.routes()[i].packs);
    CHECK(forward.routes()[i].out_at == at);
    CHECK(forward.routes()[i].in_at == at + forward.routes()[i].out.pixels());
    at += forward.routes()[i].out.pixels() + forward.routes()[i].in.pixels();
  }
  CHECK(forward.pixels() == at);
}

TEST_CASE("both ends of each route agree on what goes there") {
  for (Node const& node : {exchange(Dealt::halo, {.top = 2, .right = 3}), exchange(Dealt::gather),
                           exchange(Dealt::cut)}) {
    for (bool const backward : {false, true}) {
      for (int rank = 0; rank < 6; ++rank) {
        TileRoutes const own{node, rank, backward};
        for (TileRoute const& route : own.routes()) {
          bool found = false;
          TileRoutes const other{node, route.peer, backward};
          for (TileRoute const& back : other.routes()) {
            found = found || (back.peer == rank && back.out == route.in && back.in == route.out);
          }
          CHECK(found);
        }
      }
    }
  }
}

TEST_CASE("a whole tile is sent from where it is; whole images that all have are not sent") {
  std::vector<TileMessage<float>> messages;
  float data = 0;
  float scratch[5 * 16 * 3] = {};
  TileRoutes const gather{exchange(Dealt::gather), 1, false};
  CHECK(gather.routes().size() == 5);
  CHECK(gather.pixels() == 5 * 16);
  gather.write_messages(&data, scratch, 3, messages);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(!gather.routes()[i].packs);
    CHECK(messages[i].out == &data);
    CHECK(messages[i].in == scratch + i * 16 * 3);
    CHECK(messages[i].sent == 16 * 3);
    CHECK(messages[i].received == 16 * 3);
  }
  CHECK(TileRoutes{exchange(Dealt::gather), 1, true}.routes().empty());
  CHECK(TileRoutes{exchange(Dealt::cut), 1, false}.routes().empty());
  CHECK(TileRoutes{exchange(Dealt::cut), 1, true}.routes().size() == 5);
}

TEST_CASE("what all others want is put together once") {
  Halo const halo{.top = 1, .left = 1};  // over the border of the image: not all that the rank has
  Node node = exchange(Dealt::halo, halo);
  node.sharing.dealt = Dealt::cut_widened;
  node.in = image_shape(3, 8, 12);
  TileRoutes const backward{node, 0, true};
  REQUIRE(backward.routes().size() == 5);
  CHECK(backward.routes()[0].packs);
  for (std::size_t i = 1; i < 5; ++i) {
    CHECK(!backward.routes()[i].packs);
    CHECK(backward.routes()[i].out_at == 0);
  }
  // Its tile of 4 x 4; of the others the columns before them, and below the row above them, too.
  CHECK(backward.pixels() == 16 + 2 * 4 * 5 + 5 * 4 + 2 * 5 * 5);
}

}  // namespace tile_routes_test
