// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// to_type(): an action table as the source of a PipelineSchedule, which Pipeline takes.

#include <algorithm>
#include <string>

#include <tandem/schedule/table/action.hpp>
#include <tandem/schedule/table/action_table.hpp>

namespace tandem {

/// A header that defines struct @p name: its order is the table, for its own number of devices and
/// microbatches, and the compiler verifies it as any other where Pipeline<name, microbatches, ...>
/// is named.
/// @param table  passes of a chain, or of one that turns back at the last device
template <class Table>
std::string to_type(Table const& table, int microbatches, bool turns_back,
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
  text += std::string{"  static constexpr int chunks = "} + (turns_back ? "2" : "1") + ";\n";
  text += "  static constexpr int copies = 1;\n";
  text += std::string{"  static constexpr bool splits_backward = "} + (splits ? "true" : "false") +
          ";\n";
  text += std::string{"  static constexpr bool turns_back = "} + (turns_back ? "true" : "false") +
          ";\n\n";
  text += "  static constexpr bool fits(int devices, int microbatches) {\n    return devices == " +
          devices + " && microbatches == " + count + ";\n  }\n\n";
  text +=
      "  template <class Sink>\n  static constexpr void generate(int, int, Sink& sink) {\n"
      "    using tandem::ActionKind;\n" +
      passes + "  }\n};\n";
  return text;
}

}  // namespace tandem
