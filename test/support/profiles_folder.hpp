// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// profiles_folder: where PipeDream's own profiles are, which are not part of the library.

#include <filesystem>
#include <string>

#include <doctest/doctest.h>

namespace tandem::test {

/// The folder that TANDEM_PROFILES names, with a slash behind it; empty, and said to be skipped, if
/// it has no profiles.
inline std::string profiles_folder() {
#if defined(TANDEM_PROFILES)
  std::string const folder = std::string{TANDEM_PROFILES} + "/";
#else
  std::string const folder{};
#endif
  if (folder.empty() || !std::filesystem::exists(folder + "vgg16.txt")) {
    MESSAGE("skipped: TANDEM_PROFILES names no folder with the profiles");
    return {};
  }
  return folder;
}

}  // namespace tandem::test
