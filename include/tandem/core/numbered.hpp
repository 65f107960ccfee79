// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Numbered: a list whose index is an int, as the numbers of nodes, devices and passes are.

#include <cstddef>
#include <utility>
#include <vector>

namespace tandem::detail {

/// A std::vector that takes an int for an index, so that no place in a program that compiles with
/// -Wsign-conversion needs a cast of its own.
/// @pre    of operator[]: 0 <= i < size()
template <class T>
class Numbered : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  Numbered() = default;
  Numbered(Base list) : Base(std::move(list)) {}

  using Base::operator[];
  typename Base::reference operator[](int i) {
    return Base::operator[](static_cast<std::size_t>(i));
  }
  typename Base::const_reference operator[](int i) const {
    return Base::operator[](static_cast<std::size_t>(i));
  }
};

}  // namespace tandem::detail
