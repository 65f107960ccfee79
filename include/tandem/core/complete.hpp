// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Complete: whether a type is defined and not named only.

namespace tandem {

/// A type that is defined; not one that is named only, as Cuda's are without <tandem/cuda.cuh>.
/// Concepts that look at its members ask for this first, since the standard's would be ill-formed.
template <class T>
concept Complete = requires {
  sizeof(T);
};

}  // namespace tandem
