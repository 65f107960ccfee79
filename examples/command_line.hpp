// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the programs plan and schedule share: CLI11 reads their flags, and every fault is one
/// sentence that says what is wrong and what to write.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/file.hpp>
#include <tandem/schedule/csv/reader.hpp>

#include "number.hpp"

/// "text or json", "sgd, momentum or adam".
inline std::string listed(std::vector<std::string> const& words, std::string const& last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " " + last + " " : ", ";
    text += words[i];
  }
  return text;
}

/// "1 rank", "4 ranks", "8 microbatches".
template <class Count>
std::string counted(Count count, char const* what, char const* plural = "s") {
  return std::to_string(count) + " " + what + (count == 1 ? "" : plural);
}

/// @throws tandem::FileError  it cannot be read
inline std::string read_text(std::string const& path) {
  auto const bytes = tandem::read_file(path, tandem::text_file_limit);
  return {bytes.begin(), bytes.end()};
}

/// For transform(): a number of the type and in the range of the arguments, or a sentence.
template <class T>
CLI::Validator number(T least, T most) {
  return {[=](std::string& text) {
            try {
              T const value = number_in(text, least, most, "");
              text = std::floating_point<T>
                         ? text
                         : std::to_string(value);  // CLI11 reads neither 1e3 nor 08
              return std::string{};
            } catch (std::runtime_error const& error) {
              return std::string{error.what()};
            }
          },
          ""};
}

/// For check(): one of @p known, or a sentence.
inline CLI::Validator one_of(std::vector<std::string> const& known) {
  return {[=](std::string& text) {
            bool const is_known = std::find(known.begin(), known.end(), text) != known.end();
            return is_known ? "" : " takes " + listed(known, "or") + ", not '" + text + "'";
          },
          ""};
}

/// The description says how a program is called; no line has more than 100 columns.
struct Help : CLI::Formatter {
  Help() { column_width(26); }

  std::string make_usage(CLI::App const* /*app*/, std::string /*name*/) const override {
    return "";
  }

  std::string make_option_desc(CLI::Option const* option) const override {
    std::size_t const width = 100 - get_column_width();
    std::string text = option->get_description();
    for (std::size_t begin = 0; text.size() - begin > width;) {
      begin = std::min(text.find('\n', begin), text.rfind(' ', begin + width));
      text[begin++] = '\n';
    }
    return text;
  }
};

[[noreturn]] inline void refuse_value(CLI::Option const& option) {
  std::string const name = option.get_name();
  throw std::runtime_error{option.get_items_expected_max() == 0
                               ? name + " takes no value; write " + name
                               : name + " lacks its value; write " + name + " " +
                                     option.get_type_name()};
}

/// Reads @p words as the options of @p app say; of two of one name the last counts.
/// @return the help, if that is what they ask for; or nothing
/// @throws std::runtime_error  a flag is unknown, lacks its value or has one that it does not take
inline std::string parse(CLI::App& app, std::vector<std::string> words) {
  app.formatter(std::make_shared<Help>());
  app.footer("Exits with 2 and one sentence if a flag or a file is not valid.");
  for (CLI::Option* const option : app.get_options()) {
    bool const is_switch = option->get_items_expected_max() == 0;   // whose value CLI11 says
    option->take_last()->transform([=](std::string const& value) {  // the first of its checks
      if (is_switch ? value != "true" : value.empty() || value.starts_with("--")) {
        refuse_value(*option);
      }
      return value;
    });
  }
  try {
    std::reverse(words.begin(), words.end());
    app.parse(std::move(words));
  } catch (CLI::CallForHelp const&) {
    return app.help();
  } catch (CLI::ArgumentMismatch const& error) {  // "--parts: 1 required P missing"
    std::string_view const what = error.what();
    refuse_value(*app.get_option(std::string{what.substr(0, what.find(':'))}));
  } catch (CLI::ExtrasError const&) {
    throw std::runtime_error{"there is no flag '" + app.remaining().front() +
                             "'; --help lists them"};
  } catch (CLI::ValidationError const& error) {  // "--parts: takes a number from 1 to 9, not '0'"
    std::string what = error.what();
    throw std::runtime_error{what.erase(what.find(':'), 2)};
  }
  return "";
}

/// A program that prints the text of its words. @return its exit status
inline int run(std::string const& name, std::string (*text_of)(std::vector<std::string>),
               std::vector<std::string> words) try {
  std::string const text = text_of(std::move(words));
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    throw std::runtime_error{"the output cannot be written; is the disk full?"};
  }
  return 0;
} catch (tandem::FileError const& error) {  // says which
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
} catch (tandem::TableError const& error) {  // says the file, line and column
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
} catch (std::exception const& error) {  // may repeat a word of the command line
  std::string const sentence = tandem::detail::printable(error.what(), 4096);
  std::fprintf(stderr, "%s: %s\n", name.c_str(), sentence.c_str());
  return 2;
}
