// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads timed all-reduces: a line "devices,bytes,seconds", as it is, then one for each, such as
///
///     8,1048576,1.13e-4
///
/// NCCL's all_reduce_perf prints such times, in microseconds.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/io/file.hpp>
#include <tandem/plan/machine/calibrate.hpp>

namespace tandem {

namespace detail {

/// A line of a file, read from the left.
struct TimedLine {
  std::string const& path;
  int number;
  std::string_view whole;
  std::string_view left = whole;

  [[noreturn]] void fail(std::string const& wanted) const {
    throw FileError{path, "line " + std::to_string(number) + ", column " +
                              std::to_string(left.data() - whole.data() + 1) + ": expected " +
                              wanted};
  }

  /// A number from @p least to @p most, and the comma behind it or else the end of the line.
  TANDEM_ONCE double take(double least, double most, bool comma, char const* wanted);
  /// A number of seconds, which end the line.
  TANDEM_ONCE double take_seconds();
};

/// f(line) of each line of @p text that is not empty, but the first, which is @p head.
template <class F>
void each_timed_line(std::string_view text, std::string const& path, std::string_view head,
                     F const& f) {
  for (int number = 1; !text.empty(); ++number) {
    std::size_t const length = std::min(text.find('\n'), text.size());
    TimedLine line{path, number, text.substr(0, length)};
    text.remove_prefix(std::min(length + 1, text.size()));
    line.left.remove_suffix(line.left.ends_with('\r') ? 1 : 0);
    if (number == 1 && line.left != head) {
      line.fail("'" + std::string{head} + "'");
    }
    if (number > 1 && !line.left.empty()) {
      f(line);
    }
  }
}

}  // namespace detail

/// @param path  names the text in errors
/// @throws FileError  one sentence with line and column: the first line is another, a line has
///                    other than three positive numbers, one out of range, fewer than 2 devices, or
///                    there is none
TANDEM_ONCE [[nodiscard]] std::vector<TimedAllReduce> parse_all_reduces(std::string_view text,
                                                                        std::string const& path);

/// @throws FileError  the file cannot be read, is larger than 1 MiB, or as parse_all_reduces()
TANDEM_ONCE [[nodiscard]] std::vector<TimedAllReduce> read_all_reduces(std::string const& path);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::vector<TimedAllReduce> parse_all_reduces(std::string_view text,
                                                          std::string const& path) {
  constexpr std::string_view head = "devices,bytes,seconds";
  std::vector<TimedAllReduce> points;
  detail::each_timed_line(text, path, head, [&](detail::TimedLine line) {
    constexpr char const* devices = "a number of devices from 2 to 1000000, and a comma";
    double const count = line.take(2, 1e6, true, devices);
    if (count != std::floor(count)) {
      line.left = line.whole;
      line.fail(devices);
    }
    double const bytes =
        line.take(1, 1e18, true, "a positive number of bytes up to 1e18, and a comma");
    points.push_back({static_cast<int>(count), bytes, line.take_seconds()});
  });
  if (points.empty()) {
    throw FileError{path, "there is no all-reduce; write '" + std::string{head} +
                              "' and a line such as '8,1048576,1.13e-4' for each"};
  }
  return points;
}

TANDEM_ONCE std::vector<TimedAllReduce> read_all_reduces(std::string const& path) {
  return parse_all_reduces(detail::characters_of(read_file(path, std::size_t{1} << 20)), path);
}

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE double TimedLine::take(double least, double most, bool comma, char const* wanted) {
  char const* const last = left.data() + left.size();
  double value = 0;
  auto const [end, error] = std::from_chars(left.data(), last, value);
  bool const ends = comma ? end != last && *end == ',' : end == last;
  if (error != std::errc{} || !ends || !(value >= least && value <= most)) {  // nan, too
    fail(wanted);
  }
  left.remove_prefix(static_cast<std::size_t>(end - left.data()) + (comma ? 1 : 0));
  return value;
}

TANDEM_ONCE double TimedLine::take_seconds() {
  return take(1e-9, 1e6, false,
              "a positive number of seconds from 1e-9 to 1e6, and the end of the line");
}

}  // namespace tandem::detail

#endif
