// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <tandem/models/googlenet.hpp>
#include <tandem/strategy/program.hpp>

#include <tiny_network.hpp>

namespace placed_test {

using namespace tandem;

using Net = test::TinyNet;
struct GoogLeNet : models::GoogLeNet<10> {};

inline constexpr auto branches = place<Net>({{"4.0", 1}, {"4.2", 1}, {"5", 1}});
inline constexpr auto body = place<Net>({{"3.body", 1}, {"4.1", 2}, {"6", 1}});
inline constexpr auto later = place<Net>({{"4", 1}, {"4.1", 0}});
inline constexpr auto whole = place<Net>({{"", 1}, {"8", 0}});
inline constexpr auto block = place<GoogLeNet>({{"1", 1}});
inline constexpr auto first = place<Net>({{"0", 1}});
inline constexpr auto alone = place<Net>({{"4.0", 0}});

std::string devices(auto const& table) {
  std::string text;
  for (std::int16_t const device : table.places.device) {
    text += std::to_string(device);
  }
  return text;
}

// Nodes: input 0 1 2 3.body.0 3.body.1 3 4.0 4.1 4.2.0 4.2.1 4 5 6 7 8
TEST_CASE("a path takes what is below it; later entries take from earlier ones") {
  CHECK(devices(branches) == "0000000101101000");
  CHECK(branches.devices == 2);
  CHECK(devices(body) == "0000110020000100");
  CHECK(body.devices == 3);
  CHECK(devices(later) == "0000000101110000");  // the join of 4 has its path
  CHECK(devices(whole) == "1111111111111110");
  CHECK(devices(first) == "1100000000000000");  // the input is where the first node is
  CHECK(alone.devices == 1);
  int on_one = 0;
  for (int n = 1; n < graph<GoogLeNet>.nodes; ++n) {
    bool const in_block = graph<GoogLeNet>.node[n].top == 1;  // and not 10 to 13
    REQUIRE(block.places.device[n] == (in_block ? 1 : 0));
    on_one += in_block ? 1 : 0;
  }
  CHECK(on_one > 20);
}

TEST_CASE("what is wrong with a table") {
  auto const at = [](auto const& table) {
    CHECK(table.devices == 1);
    return std::to_string(table.entry) + ":" + std::to_string(table.device);
  };
  constexpr auto unknown = place<Net>({{"3", 1}, {"9", 1}});
  CHECK(unknown.fault == PlacementFault::unknown_path);
  CHECK(at(unknown) == "1:1");
  CHECK(place<Net>({{"4.", 1}}).fault == PlacementFault::unknown_path);
  CHECK(place<Net>({{".4", 1}}).fault == PlacementFault::unknown_path);
  CHECK(place<Net>({{"4.0.0", 1}}).fault == PlacementFault::unknown_path);
  CHECK(place<Net>({{"4x", 1}}).fault == PlacementFault::unknown_path);
  CHECK(place<Net>({{"400", 1}}).fault == PlacementFault::unknown_path);
  CHECK(place<Net>({{"3.bod", 1}}).fault == PlacementFault::unknown_path);
  constexpr auto negative = place<Net>({{"3", -2}});
  CHECK(negative.fault == PlacementFault::negative_device);
  CHECK(at(negative) == "0:-2");
  constexpr auto gap = place<Net>({{"3", 1}, {"4", 3}});
  CHECK(gap.fault == PlacementFault::unused_device);
  CHECK(at(gap) == "0:2");
  CHECK(place<Net>({{"", 1}}).fault == PlacementFault::unused_device);
  CHECK(place<Net>({{"4", 1'000'000}}).fault == PlacementFault::unused_device);
}

template <auto const& Table, int Microbatches = 1>
using Cut = typename ModelParallel<Placed<Table>, tandem::Microbatches<Microbatches>>::template Cut<
    typename std::remove_cvref_t<decltype(Table)>::Network>;

template <class C>
std::string edges() {
  std::string text;
  for (StageEdge const& edge : C::map.edge) {
    text += std::to_string(edge.from) + "-" + std::to_string(edge.to);
    text += edge.link >= 0 ? ":" + std::to_string(edge.link) + " " : " ";
  }
  return text;
}
template <class C>
std::string row(int device) {
  std::string text;
  for (Action const& action : row_of(C::table, device)) {
    text += to_string(action) + " ";
  }
  return text;
}

TEST_CASE("parts begin where tensors come and end where they leave") {
  using C = Cut<branches>;
  std::string parts;
  for (std::int16_t const part : C::partition.part) {
    parts += std::to_string(part);
  }
  CHECK(parts == "0000000123345666");
  // 1 brings the input of branch 4.2.0 as well, which is in part 3 of the same device.
  CHECK(edges<C>() == "0-1:0 0-2 1-3 1-4:1 2-4 3-4:2 4-5:3 5-6:4 ");
  CHECK(C::map.links == 5);
}

TEST_CASE("branches go at the same time") {
  using C = Cut<branches>;
  CHECK(row<C>(0) ==
        "0F0 0SEND_F0 2F0 4RECV_F0 4F0 4SEND_F0 6RECV_F0 6F0 6B0 6SEND_B0 4RECV_B0 4B0 4SEND_B0 "
        "2B0 0RECV_B0 0B0 ");
  CHECK(row<C>(1) ==
        "1RECV_F0 1F0 1SEND_F0 3F0 3SEND_F0 5RECV_F0 5F0 5SEND_F0 5RECV_B0 5B0 5SEND_B0 3RECV_B0 "
        "3B0 1RECV_B0 1B0 1SEND_B0 ");
  CHECK(Cut<body, 3>::verdict);
  CHECK(Cut<later, 2>::verdict);
  CHECK(Cut<alone>::map.edges == 0);
}

TEST_CASE("every edge leads upwards and joins what it says") {
  auto const check = []<class C>(C const*) {
    REQUIRE(is_sound(C::map));
    for (int e = 1; e < C::map.edges; ++e) {  // ascending by where they lead, without doubles
      StageEdge const a = C::map.edge[e - 1];
      StageEdge const b = C::map.edge[e];
      REQUIRE((a.to < b.to || (a.to == b.to && a.from < b.from)));
    }
  };
  check(static_cast<Cut<branches>*>(nullptr));
  check(static_cast<Cut<body>*>(nullptr));
  check(static_cast<Cut<later>*>(nullptr));
  check(static_cast<Cut<block>*>(nullptr));
}

}  // namespace placed_test
