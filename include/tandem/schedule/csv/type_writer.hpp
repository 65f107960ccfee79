// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// to_type(): an action table as the source of a PipelineSchedule, which Pipeline takes.

#include <cstddef>
#include <optional>
#include <string>

#include <tandem/core/config.hpp>
#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>
#include <tandem/schedule/table/stage_map_view.hpp>

namespace tandem {

/// Where the stages of a table are.
struct StageLayout {
  int chunks = 1;  ///< stages a device, of one copy
  int copies = 1;  ///< of the model
  bool turns_back = false;

  friend constexpr bool operator==(StageLayout const&, StageLayout const&) = default;
};

/// That of a map of one copy of a chain, which may turn back at the last device, or of two copies
/// in opposite directions; else nothing.
TANDEM_ONCE std::optional<StageLayout> layout_of(RuntimeMap const& map);

/// A header that defines struct @p name: its order is the table, for its own number of devices and
/// microbatches, and the compiler verifies it as any other where Pipeline<name, microbatches, ...>
/// is named.
/// @param table  passes
template <class Table>
std::string to_type(Table const& table, int microbatches, StageLayout const& layout,
                    std::string const& name) {
  std::string passes;
  bool splits = false;
  for (int device = 0; device < devices_of(table); ++device) {
    for (Action const& action : row_of(table, device)) {
      splits = splits || action.kind == ActionKind::input_gradient;
      char const* const kind = action.kind == ActionKind::forward          ? "forward"
                               : action.kind == ActionKind::backward       ? "backward"
                               : action.kind == ActionKind::input_gradient ? "input_gradient"
                                                                           : "weight_gradient";
      passes += "    sink(" + std::to_string(device) + ", {ActionKind::" + kind + ", 0, " +
                std::to_string(action.stage) + ", " + std::to_string(action.index) + "});\n";
    }
  }
  std::string const devices = std::to_string(devices_of(table));
  std::string const count = std::to_string(microbatches);
  std::string text = "#pragma once\n\n#include <tandem/schedules.hpp>\n\nstruct " + name + " {\n";
  text += "  static constexpr char const* name = \"" + name + "\";\n";
  text += "  static constexpr int chunks = " + std::to_string(layout.chunks) + ";\n";
  text += "  static constexpr int copies = " + std::to_string(layout.copies) + ";\n";
  text += std::string{"  static constexpr bool splits_backward = "} + (splits ? "true" : "false") +
          ";\n";
  text += std::string{"  static constexpr bool turns_back = "} +
          (layout.turns_back ? "true" : "false") + ";\n\n";
  text += "  static constexpr bool fits(int devices, int microbatches) {\n    return devices == " +
          devices + " && microbatches == " + count + ";\n  }\n\n";
  text +=
      "  template <class Sink>\n  static constexpr void generate(int, int, Sink& sink) {\n"
      "    using tandem::ActionKind;\n" +
      passes + "  }\n};\n";
  return text;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::optional<StageLayout> layout_of(RuntimeMap const& map) {
  int const parts = static_cast<int>(map.device.size()) / map.copies;
  StageLayout const layout{
      .chunks = parts / map.devices,
      .copies = map.copies,
      .turns_back = map.copies == 1 && parts == 2 * map.devices && map.device.back() == 0};
  for (int s = 0; s < map.copies * parts; ++s) {
    bool const back = s >= parts || (layout.turns_back && s >= map.devices);
    int const along = s % parts % map.devices;
    if (parts % map.devices != 0 || (layout.copies > 1 && layout.chunks > 1) ||
        map.device[static_cast<std::size_t>(s)] != (back ? map.devices - 1 - along : along)) {
      return std::nullopt;
    }
  }
  return layout;
}

}  // namespace tandem

#endif
