// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a folder of checkpoints has: step-000420/ is one, step-000420.tmp/ is none yet, or no more.
///
/// A checkpoint is complete when its name has no .tmp behind it and tandem.json is in it. There is
/// no link to the newest one, which could point at what is not there: it is found by looking.

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/io/synced_file.hpp>

namespace tandem::detail {

inline constexpr std::string_view checkpoint_prefix = "step-";
inline constexpr std::string_view temporary_suffix = ".tmp";
inline constexpr char const* manifest_name = "tandem.json";
inline constexpr char const* index_name = "model.safetensors.index.json";
inline constexpr char const* whole_model_name = "model.safetensors";  ///< a folder without index

/// "step-000420": six digits, or as many as there are.
TANDEM_ONCE std::string checkpoint_name(std::int64_t step);

/// The step of a name that checkpoint_name() gives; of any other nothing.
TANDEM_ONCE std::optional<std::int64_t> step_of(std::string_view name);

/// Of a folder's path, "/" behind it or not.
inline std::string in_folder(std::string const& folder, std::string_view name) {
  std::string path = folder;
  path += folder.ends_with('/') ? "" : "/";
  return path += name;
}

inline bool is_file(std::string const& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}
inline bool is_folder(std::string const& path) {
  struct ::stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The steps of the complete checkpoints in a folder, the newest last; none where there is no such
/// folder.
TANDEM_ONCE std::vector<std::int64_t> complete_checkpoints(std::string const& folder);

/// Removes what of checkpoints before @p step was not finished, or was about to be removed.
TANDEM_ONCE void remove_unfinished(std::string const& folder, std::int64_t step) noexcept;

/// Removes the oldest complete checkpoints but for @p keep, never that of @p step. What is to go
/// loses its name first, so that half of one is none.
TANDEM_ONCE void remove_oldest(std::string const& folder, int keep, std::int64_t step) noexcept;

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string checkpoint_name(std::int64_t step) {
  std::string const digits = std::to_string(step);
  std::string name{checkpoint_prefix};
  name.append(digits.size() < 6 ? 6 - digits.size() : 0, '0');
  return name + digits;
}

TANDEM_ONCE std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(checkpoint_prefix)) {
    return {};
  }
  std::string_view const digits = name.substr(checkpoint_prefix.size());
  constexpr std::size_t most = 16;  // of 2^53
  if (digits.size() < 6 || digits.size() > most ||
      digits.find_first_not_of("0123456789") != digits.npos) {
    return {};
  }
  std::int64_t step = 0;
  for (char const digit : digits) {
    step = 10 * step + (digit - '0');
  }
  return checkpoint_name(step) == name ? std::optional{step} : std::nullopt;
}

TANDEM_ONCE std::vector<std::int64_t> complete_checkpoints(std::string const& folder) {
  std::vector<std::int64_t> steps;
  for (std::string const& name : names_in(folder)) {
    auto const step = step_of(name);
    if (step && is_file(in_folder(in_folder(folder, name), manifest_name))) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

TANDEM_ONCE void remove_unfinished(std::string const& folder, std::int64_t step) noexcept {
  try {
    for (std::string const& name : names_in(folder)) {
      std::string_view stem = name;
      while (stem.ends_with(temporary_suffix)) {
        stem.remove_suffix(temporary_suffix.size());
      }
      auto const of = step_of(stem);
      if (of && *of < step && stem != name) {
        remove_folder(in_folder(folder, name));
      }
    }
  } catch (...) {  // no memory: they stay
  }
}

TANDEM_ONCE void remove_oldest(std::string const& folder, int keep, std::int64_t step) noexcept {
  try {
    std::vector<std::int64_t> steps = complete_checkpoints(folder);
    std::erase(steps, step);
    for (std::size_t i = 0; i + static_cast<std::size_t>(keep) < steps.size() + 1; ++i) {
      std::string const path = in_folder(folder, checkpoint_name(steps[i]));
      std::string const gone = path + std::string{temporary_suffix};
      if (std::rename(path.c_str(), gone.c_str()) == 0 && sync_folder(folder.c_str()) == 0) {
        remove_folder(gone);
      }
    }
  } catch (...) {  // no memory: they stay
  }
}

}  // namespace tandem::detail

#endif
