// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads timed products: a line "rows,columns,depth,seconds", as it is, then one for each, such as
///
///     8192,6144,6144,2.9e-3

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>
#include <tandem/plan/machine/fit_kernels.hpp>
#include <tandem/plan/machine/timed_all_reduces.hpp>

namespace tandem {

/// @param path  names the text in errors
/// @throws FileError  one sentence with line and column: the first line is another, a line has
///                    other than four positive numbers or one out of range, or there is none
TANDEM_ONCE [[nodiscard]] std::vector<TimedProduct> parse_products(std::string_view text,
                                                                   std::string const& path);

/// @throws FileError  the file cannot be read, is larger than 1 MiB, or as parse_products()
TANDEM_ONCE [[nodiscard]] std::vector<TimedProduct> read_products(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<TimedProduct> parse_products(std::string_view text,
                                                     std::string const& path) {
  constexpr std::string_view head = "rows,columns,depth,seconds";
  constexpr char const* size = "a size from 1 to 1e9, and a comma";
  std::vector<TimedProduct> points;
  detail::each_timed_line(text, path, head, [&](detail::TimedLine line) {
    double const rows = line.take(1, 1e9, true, size);
    double const columns = line.take(1, 1e9, true, size);
    double const depth = line.take(1, 1e9, true, size);
    points.push_back({rows, columns, depth, line.take_seconds()});
  });
  if (points.empty()) {
    throw FileError{path, "there is no product; write '" + std::string{head} +
                              "' and a line such as '8192,6144,6144,2.9e-3' for each"};
  }
  return points;
}

TANDEM_ONCE std::vector<TimedProduct> read_products(std::string const& path) {
  return parse_products(detail::characters_of(read_file(path, std::size_t{1} << 20)), path);
}

}  // namespace tandem

#endif
