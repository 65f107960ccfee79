// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The page of curves: the lines of logs between the two halves of page_text.hpp.

#include <span>
#include <string>
#include <string_view>

#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/file.hpp>

#include "page_text.hpp"

/// The lines of a log, as JavaScript; one that is still being written is left out.
/// @throws tandem::FileError  it cannot be read, or is no log of a StepLog
inline std::string log_lines(std::string const& path) {
  auto const bytes = tandem::read_file(path, tandem::default_file_limit);
  std::string_view rest{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  std::string lines;
  for (int number = 1; rest.find('\n') != rest.npos; ++number) {
    std::string_view const line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    bool const known = line.starts_with("{\"kind\":\"") && line.ends_with('}');
    if (!known || line.find('<') != line.npos) {  // a StepLog writes it as \u003c
      throw tandem::FileError{path, "line " + std::to_string(number) +
                                        " is none of a StepLog, whose logs of JSON end in .jsonl"};
    }
    lines += "JSON.parse('";  // of a string, so that nothing in it is code
    for (char const c : line) {
      lines += c == '\\' || c == '\'' ? "\\" : "";
      lines += c;
    }
    lines += "'),\n";
  }
  return lines;
}

/// @param seconds  after how many the page is to load itself again; 0: never
inline std::string page_of(std::span<char* const> logs, int seconds) {
  std::string text = page_before;
  for (char const* const log : logs) {
    std::string name;
    for (char const c : tandem::detail::printable(log)) {
      name += c == '"' || c == '\\' || c == '<' ? '_' : c;
    }
    text += "{name: \"" + name + "\", lines: [\n" + log_lines(log) + "]},\n";
  }
  return text + "];\nconst reload = " + std::to_string(seconds) + ";\n" + page_after;
}
