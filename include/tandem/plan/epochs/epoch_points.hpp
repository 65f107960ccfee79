// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// EpochPoint: epochs to the target accuracy that were measured at a global batch; and the text
/// form of a list of them, "2048:4,4096:7,8192:12,16384:23".

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

/// Epochs at a global batch, the mean of `weight` runs.
struct EpochPoint {
  double batch = 0;   ///< samples
  double epochs = 0;  ///< or any other measure of samples seen
  double weight = 1;  ///< only fits read it

  friend constexpr bool operator==(EpochPoint const&, EpochPoint const&) = default;
};

/// @throws ContractError  there are fewer than @p least points, a number is not positive and
///                        finite, or batches do not ascend
TANDEM_ONCE void check_epoch_points(std::vector<EpochPoint> const& points, int least);

/// Reads "2048:4,4096:7": batch:epochs pairs in order of batch; blanks may follow a comma.
/// @throws ContractError  the text is another: one sentence with the column, which counts bytes
///                        from 1
TANDEM_ONCE [[nodiscard]] std::vector<EpochPoint> parse_epoch_points(std::string_view text);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// Reads "batch:epochs" pairs and counts columns, from 1.
class EpochPointReader {
 public:
  explicit EpochPointReader(std::string_view text) : text_{text} {}

  std::vector<EpochPoint> read() {
    std::vector<EpochPoint> points;
    do {
      while (next() == ' ') {
        ++at_;
      }
      std::size_t const begin = at_;
      double const batch = number("a global batch");
      if (!points.empty() && batch <= points.back().batch) {
        at_ = begin;
        fail("this batch is not larger than the one before; give points in order of batch");
      }
      if (next() != ':') {
        fail("expected ':' between batch and epochs");
      }
      ++at_;
      points.push_back({batch, number("a number of epochs")});
    } while (next() == ',' && ++at_ > 0);
    if (at_ < text_.size()) {
      fail("expected ',' or the end");
    }
    return points;
  }

 private:
  /// NUL at the end.
  [[nodiscard]] char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  /// A positive decimal number.
  double number(char const* what) {
    double value = 0;
    bool const digit = next() >= '0' && next() <= '9';  // neither a sign nor "inf" nor "nan"
    std::from_chars_result const result =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (!digit || result.ec != std::errc{} || !(value >= 1e-9 && value <= 1e12)) {
      fail(std::string{"expected "} + what + ", a positive number from 1e-9 to 1e12");
    }
    at_ = static_cast<std::size_t>(result.ptr - text_.data());
    return value;
  }

  [[noreturn]] void fail(std::string const& what) const {
    throw ContractError{"epochs \"" + std::string{text_} + "\", column " + std::to_string(at_ + 1) +
                        ": " + what + "; write batch:epochs pairs such as 2048:4,4096:7"};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE void check_epoch_points(std::vector<EpochPoint> const& points, int least) {
  if (static_cast<int>(points.size()) < least) {
    throw ContractError{"points of epochs: there are " + std::to_string(points.size()) +
                        "; give at least " + std::to_string(least)};
  }
  double before = 0;
  for (EpochPoint const& point : points) {
    expects(point.batch > 0 && point.epochs > 0 && point.weight > 0 && is_finite(point.batch) &&
                is_finite(point.epochs) && is_finite(point.weight),
            "points of epochs: give batches, epochs and weights that are positive");
    expects(point.batch > before, "points of epochs: give them in order of batch, each batch once");
    before = point.batch;
  }
}

TANDEM_ONCE std::vector<EpochPoint> parse_epoch_points(std::string_view text) {
  return detail::EpochPointReader{text}.read();
}

}  // namespace tandem

#endif
