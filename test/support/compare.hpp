// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Comparisons of trainers: largest relative error of parameters and gradients, and equal bits.
///
/// Errors are compared as `!(error <= bound)`, so that a NaN fails.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <tandem/engine/memory/named_parameter.hpp>
#include <tandem/train/parameters.hpp>

namespace tandem::test {

/// Largest |a - b| over the largest |b|; NaN if any element is; infinite if the sizes differ.
template <class T, class U>
double relative_error(std::span<T> a, std::span<U> b) {
  if (a.size() != b.size()) {
    return INFINITY;
  }
  double largest = 0.0;
  double error = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto const wanted = static_cast<double>(b[i]);
    double const off = std::fabs(static_cast<double>(a[i]) - wanted);
    if (!std::isfinite(off)) {
      return NAN;
    }
    largest = std::max(largest, std::fabs(wanted));
    error = std::max(error, off);
  }
  return error == 0.0 ? 0.0 : error / largest;
}

enum class Part { value, gradient };

/// The parameters (or their gradients) of two networks, the worst tensor's relative error and name.
struct Difference {
  double error = 0.0;
  std::string name{};
};

template <class T, class U>
Difference difference(std::vector<NamedParameter<T>> const& a,
                      std::vector<NamedParameter<U>> const& b, Part part) {
  Difference worst{.error = a.size() == b.size() ? 0.0 : INFINITY};
  for (std::size_t p = 0; p < std::min(a.size(), b.size()); ++p) {
    bool const values = part == Part::value;
    double const error =
        relative_error(values ? a[p].value : a[p].gradient, values ? b[p].value : b[p].gradient);
    if (a[p].name != b[p].name || !(error <= worst.error)) {
      worst = {a[p].name == b[p].name ? error : INFINITY, a[p].name};
    }
  }
  return worst;
}

template <class T>
bool same_bits(std::span<T> a, std::span<T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

/// The first tensor of which a value or an optimizer state differs in any bit; "" if none does.
template <class T>
std::string first_difference(std::vector<NamedParameter<T>> const& a,
                             std::vector<NamedParameter<T>> const& b) {
  if (a.size() != b.size()) {
    return "different numbers of parameters";
  }
  for (std::size_t p = 0; p < a.size(); ++p) {
    if (a[p].name != b[p].name || !same_bits(a[p].value, b[p].value)) {
      return a[p].name;
    }
    if (a[p].states.size() != b[p].states.size()) {
      return a[p].name + ": different numbers of states";
    }
    for (std::size_t s = 0; s < a[p].states.size(); ++s) {
      if (!same_bits(a[p].states[s], b[p].states[s])) {
        return a[p].name + ": a state";
      }
    }
  }
  return "";
}

/// A copy of all values, to compare with later.
template <class T>
std::vector<std::vector<T>> values_of(std::vector<NamedParameter<T>> const& parameters) {
  std::vector<std::vector<T>> copy;
  for (NamedParameter<T> const& p : parameters) {
    copy.emplace_back(p.value.begin(), p.value.end());
  }
  return copy;
}

}  // namespace tandem::test
