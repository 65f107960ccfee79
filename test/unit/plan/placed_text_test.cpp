// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/models/googlenet.hpp>
#include <tandem/models/inception_v3.hpp>
#include <tandem/plan/place/text.hpp>
#include <tandem/strategy/cut/placed.hpp>

#include <tiny_network.hpp>

namespace placed_text_test {

using namespace tandem;
using Net = test::TinyNet;
using Paths = std::vector<PlacedPath>;

constexpr std::size_t most_entries = 320;

/// What place<N> makes of a list that is known at run time only: its last entry stands there often.
template <class N>
PlacementTable<N> evaluate(Paths const& list) {
  if (list.empty()) {
    return place<N>({});
  }
  REQUIRE(list.size() <= most_entries);
  auto const entry = [&](std::size_t i) {
    PlacedPath const& own = list[std::min(i, list.size() - 1)];
    return Placement{own.path, own.device};
  };
  return [&]<std::size_t... I>(std::index_sequence<I...>) { return place<N>({entry(I)...}); }
  (std::make_index_sequence<most_entries>{});
}

template <class N>
std::vector<int> devices_of(PlacementTable<N> const& table) {
  return {std::begin(table.places.device), std::end(table.places.device)};
}

/// The list of a placement, which must give it back; device 0 has something.
template <class N>
Paths check(std::vector<int> device) {
  Paths const list = placed_paths(graph<N>, device);
  PlacementTable<N> const table = evaluate<N>(list);
  REQUIRE(table.fault == PlacementFault::none);
  device[0] = device[1];  // the input is wherever it is read
  CHECK(devices_of(table) == device);
  return list;
}

inline constexpr auto branches = place<Net>({{"4.0", 1}, {"4.2", 1}, {"5", 1}});
inline constexpr auto body = place<Net>({{"3.body", 1}, {"4.1", 2}, {"6", 1}});
inline constexpr auto later = place<Net>({{"4", 1}, {"4.1", 0}});
inline constexpr auto whole = place<Net>({{"", 1}, {"8", 0}});

TEST_CASE("the list that a person would write") {
  CHECK(check<Net>(devices_of(branches)) == Paths{{"4.0", 1}, {"4.2", 1}, {"5", 1}});
  CHECK(check<Net>(devices_of(body)) == Paths{{"3.body", 1}, {"4.1", 2}, {"6", 1}});
  CHECK(check<Net>(devices_of(later)) == Paths{{"4", 1}, {"4.1", 0}});
  CHECK(check<Net>(devices_of(whole)) == Paths{{"", 1}, {"8", 0}});
  CHECK(check<Net>(std::vector<int>(graph<Net>.nodes)).empty());
}

std::vector<int> random_devices(std::mt19937& random, int nodes, int devices) {
  std::vector<int> device(static_cast<std::size_t>(nodes));
  unsigned const changes = 1 + random() % 8;  // long runs, and short ones
  for (std::size_t n = 1; n < device.size(); ++n) {
    bool const other = random() % changes == 0;
    device[n] = other ? static_cast<int>(random() % static_cast<unsigned>(devices)) : device[n - 1];
  }
  for (int d = 0; d < devices; ++d) {  // each is used
    device[device.size() - 1 - static_cast<std::size_t>(d)] = d;
  }
  return device;
}

template <class N>
void check_random(int rounds, int devices, unsigned seed) {
  std::mt19937 random{seed};
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    check<N>(random_devices(random, graph<N>.nodes, devices));
  }
}

TEST_CASE("any placement comes back") {
  check_random<Net>(200, 2, 1);
  check_random<Net>(200, 3, 2);
  check_random<models::GoogLeNet<10>>(10, 2, 3);
  check_random<models::GoogLeNet<10>>(10, 4, 4);
  check_random<models::InceptionV3<1000>>(10, 2, 5);
  check_random<models::InceptionV3<1000>>(10, 8, 6);
}

TEST_CASE("no list is shorter") {
  Paths entries;
  for (int n = 0; n < graph<Net>.nodes; ++n) {
    for (Path path = graph<Net>.node[n].path;; path.pop()) {
      entries.push_back({to_string(path), 0});
      entries.push_back({to_string(path), 1});
      if (path.depth == 0) {
        break;
      }
    }
  }
  std::mt19937 random{7};
  int short_ones = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<int> device = random_devices(random, graph<Net>.nodes, 2);
    Paths const list = check<Net>(device);
    device[0] = device[1];
    short_ones += list.size() <= 3 ? 1 : 0;
    for (PlacedPath const& a : entries) {
      if (list.size() > 1) {
        CHECK(devices_of(place<Net>({{a.path, a.device}})) != device);
      }
      for (PlacedPath const& b : entries) {
        if (list.size() > 2) {
          REQUIRE(devices_of(place<Net>({{a.path, a.device}, {b.path, b.device}})) != device);
        }
      }
    }
  }
  CHECK(short_ones > 3);
}

TEST_CASE("as a declaration, in lines of a hundred columns") {
  CHECK(placed_text(graph<Net>, devices_of(later)) ==
        "inline constexpr auto table = place<Net>({{\"4\", 1}, {\"4.1\", 0}});\n");
  std::mt19937 random{8};
  using Google = models::GoogLeNet<10>;
  std::string const text =
      placed_text(graph<Google>, random_devices(random, graph<Google>.nodes, 4));
  std::size_t lines = 0;
  for (std::size_t begin = 0; begin < text.size(); ++lines) {
    std::size_t const end = text.find('\n', begin);
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
  CHECK(lines > 3);
}

}  // namespace placed_text_test
