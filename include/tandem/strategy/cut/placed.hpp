// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// place: a table of which device has which part of a network, for ModelParallel<Placed<table>>.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include <tandem/graph/lower.hpp>
#include <tandem/schedule/verify/verify.hpp>
#include <tandem/strategy/cut/model_shape.hpp>
#include <tandem/strategy/cut/partition.hpp>

namespace tandem {

/// All nodes below a path go to a device: {"3.1", 1} places 3.1, 3.1.0, 3.1.1, … but not 3.10.
/// Paths are those of parameter names: "3", "3.1", "4.body.0"; "" is the whole network.
struct Placement {
  std::string_view path;
  int device = 0;
};

enum class PlacementFault : std::uint8_t { none, unknown_path, negative_device, unused_device };

/// A device for each node of @p Net; made by place<Net>.
template <class Net>
struct PlacementTable {
  using Network = Net;
  NodePlaces<graph<Net>.nodes> places{};
  int devices = 1;
  PlacementFault fault = PlacementFault::none;
  int entry = 0;   ///< at fault, of the list
  int device = 0;  ///< at fault
};

namespace detail {

/// The path that @p text spells; false where it spells none.
constexpr bool parse_path(std::string_view text, Path& path) {
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    int number = 0;
    bool digits = true;
    for (end = begin; end < text.size() && text[end] != '.'; ++end) {
      digits = digits && text[end] >= '0' && text[end] <= '9' && end - begin < 4;
      number = digits ? 10 * number + (text[end] - '0') : 0;
    }
    std::string_view const word = text.substr(begin, end - begin);
    bool const plain = digits && !word.empty() && (word.size() == 1 || word[0] != '0');
    if ((!plain && word != "body" && word != "shortcut") || path.depth == Path::most ||
        end + 1 == text.size()) {  // a point at the end
      return false;
    }
    path.push(plain ? number : word == "body" ? Path::body : Path::shortcut);
  }
  return true;
}

/// Whether @p path is @p prefix or below it.
constexpr bool is_below(Path const& path, Path const& prefix) {
  for (int i = 0; i < prefix.depth; ++i) {
    if (i >= path.depth || path.part[i] != prefix.part[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace detail

/// The table in which the nodes below each path are on that device, later entries before earlier
/// ones, and all others on device 0:
///
///   inline constexpr auto table = place<Net>({{"3.1", 1}, {"3.2", 1}, {"4", 1}});
///
/// The join of a Concat or a Residual has the path of the block. The network's input is wherever it
/// is read. What is wrong with a table, ModelParallel<Placed<table>> says.
template <class Net>
constexpr PlacementTable<Net> place(std::initializer_list<Placement> list) {
  constexpr auto const& network = graph<Net>;
  PlacementTable<Net> table;
  auto const fail = [&](PlacementFault fault, int entry, int device) {
    if (table.fault == PlacementFault::none) {
      table.fault = fault;
      table.entry = entry;
      table.device = device;
    }
  };
  int entry = 0;
  for (Placement const& placement : list) {
    bool found = false;
    Path prefix;
    bool const spelled = detail::parse_path(placement.path, prefix);
    for (int n = 1; spelled && n < network.nodes; ++n) {
      if (detail::is_below(network.node[n].path, prefix)) {
        table.places.device[n] = static_cast<std::int16_t>(placement.device);
        found = true;
      }
    }
    if (!found) {
      fail(PlacementFault::unknown_path, entry, placement.device);
    } else if (placement.device < 0) {
      fail(PlacementFault::negative_device, entry, placement.device);
    }
    table.devices = table.devices > placement.device ? table.devices : placement.device + 1;
    ++entry;
  }
  for (int device = 0; device < table.devices && table.fault == PlacementFault::none; ++device) {
    bool used = false;
    for (int n = 1; n < network.nodes; ++n) {
      used = used || table.places.device[n] == device;
    }
    if (!used) {
      fail(PlacementFault::unused_device, 0, device);
    }
  }
  if (table.fault != PlacementFault::none) {  // so that what uses it does not complain too
    table.places = {};
    table.devices = 1;
  }
  table.places.device[0] = table.places.device[network.nodes > 1 ? 1 : 0];
  return table;
}

namespace detail {

template <class T>
concept IsPlacementTable = requires(T const& table) {
  typename T::Network;
  { table.fault } -> std::convertible_to<PlacementFault>;
};

template <class Net, PlacementFault Fault, int Entry, int Device>
struct PlacementIsSound {
  static constexpr bool value = true;
  static_assert(Fault != PlacementFault::unknown_path,
                "place<Net>: the network has no such path; give paths as in parameter names, "
                "\"3.1\" or \"4.body.0\" (PlacementIsSound names the entry, counted from 0)");
  static_assert(Fault != PlacementFault::negative_device,
                "place<Net>: a device's number is 0 or more (PlacementIsSound names the entry, "
                "counted from 0, and its device)");
  static_assert(Fault != PlacementFault::unused_device,
                "place<Net>: a device has no part of the network; number devices from 0 without a "
                "gap, and leave something on 0 (PlacementIsSound names the device)");
};

template <class Table, bool Is = IsPlacementTable<Table>>
struct PlacedIsATable {
  static constexpr bool value = true;
  static_assert(Is,
                "Placed<table>: make the table with `inline constexpr auto table = "
                "place<Net>({{\"3.1\", 1}, ...});`");
};

template <auto const& Table>
concept TableReference = IsPlacementTable<std::remove_cvref_t<decltype(Table)>>;

}  // namespace detail

/// Each node of the network on the device that @p Table, made by place<Net>, says.
/// The primary template is the error path.
template <auto const& Table>
struct Placed {
  using Network = void;
  static constexpr bool is_placement = true;
  static constexpr int devices = 1;
  static_assert(detail::PlacedIsATable<std::remove_cvref_t<decltype(Table)>>::value);
};

template <auto const& Table>
  requires detail::TableReference<Table>
struct Placed<Table> {
  using Network = typename std::remove_cvref_t<decltype(Table)>::Network;
  static constexpr bool is_placement = true;
  static constexpr auto const& table = Table;
  static constexpr int devices = Table.devices;
  static_assert(detail::PlacementIsSound<Network, Table.fault, Table.entry, Table.device>::value);
};

namespace detail {

template <class T>
concept IsPlacement = requires {
  T::is_placement;
};

template <int Stages, int Edges, GraphSize Size>
constexpr StageMap<Stages, Edges> placed_map(PlacedParts<Size> const& parts, int devices) {
  StageMap<Stages, Edges> map{.devices = devices, .links = parts.links};
  for (int s = 0; s < Stages; ++s) {
    map.device[s] = parts.device[s];
  }
  for (int e = 0; e < Edges; ++e) {
    map.edge[e] = parts.edge[e];
  }
  return map;
}

/// Most stages of a device.
constexpr int most_stages(StageMapView const& map) {
  Scratch<int> count{map.devices};
  int most = 0;
  for (int s = 0; s < map.stages; ++s) {
    int const own = ++count[map.device[s]];
    most = own > most ? own : most;
  }
  return most;
}

template <class Net, class TableNet>
struct PlacedForThisNetwork {
  static constexpr bool value = true;
  static_assert(std::same_as<Net, TableNet> || std::is_void_v<TableNet>,  // which has been said
                "Placed<table>: the table is of another network; make it with place<Net> of the "
                "network that is trained");
};

template <bool Runs>
struct PlacementRuns {
  static constexpr bool value = true;
  static_assert(Runs,
                "Placed<table>: the devices would wait for each other forever; place fewer "
                "parts apart");
};

/// A placed network's stages, each microbatch through all of them and back before the next.
template <class How, int Microbatches>
struct PlacedModel {
  using HowType = How;
  static constexpr int devices = How::devices;
  static constexpr int copies = 1;

  template <class Net>
  struct Cut : OneDeviceModel<1>::Cut<Net> {
    static_assert(PlacedForThisNetwork<Net, typename How::Network>::value);
  };
  template <std::same_as<typename How::Network> Net>
  struct Cut<Net> {
    static constexpr auto parts = cut_placed(graph<Net>, How::table.places);
    static constexpr auto const& partition = parts.partition;
    static constexpr auto map = placed_map<parts.partition.parts, parts.edges>(parts, devices);
    static constexpr auto table = lower(
        sequential_table<devices, 2 * Microbatches * most_stages(map)>(map, Microbatches), map);
    static constexpr Verdict verdict = verify(table, map, Microbatches);
    static_assert(PlacementRuns<static_cast<bool>(verdict)>::value);
  };
};

}  // namespace detail

}  // namespace tandem
