// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rounding: how often a sum of several numbers of a narrow type is rounded to it.

namespace tandem {

enum class Rounding : bool {
  once,  ///< added in a wider type
  each   ///< behind each addition: what is added at one place, or at several one after another
};

}  // namespace tandem
