// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Flags: a bench's command line, `--name value` pairs.

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/contract.hpp>

namespace tandem::bench {

class Flags {
 public:
  /// @throws ContractError  something is no pair, or not one of @p known
  Flags(int argc, char** argv, std::vector<std::string_view> const& known) {
    std::string list = "flags, each with a value:";
    for (std::string_view const name : known) {
      list.append(" --").append(name);
    }
    for (int i = 1; i < argc; i += 2) {
      std::string_view const flag = argv[i];
      bool found = false;
      for (std::string_view const name : known) {
        found = found || (flag.substr(0, 2) == "--" && flag.substr(2) == name);
      }
      expects(found && i + 1 < argc, list.c_str());
      pairs_.push_back({flag.substr(2), argv[i + 1]});
    }
  }

  [[nodiscard]] std::string text(std::string_view name, std::string const& otherwise) const {
    for (Pair const& pair : pairs_) {
      if (pair.name == name) {
        return std::string{pair.value};
      }
    }
    return otherwise;
  }
  [[nodiscard]] int number(std::string_view name, int otherwise) const {
    return std::atoi(text(name, std::to_string(otherwise)).c_str());
  }

 private:
  struct Pair {
    std::string_view name;
    std::string_view value;
  };
  std::vector<Pair> pairs_;
};

}  // namespace tandem::bench
