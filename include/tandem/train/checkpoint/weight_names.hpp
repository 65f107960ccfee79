// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WeightNames: how a file names tensors that the network calls otherwise; and FileWeights, a file
/// read by such names.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/safetensors/all.hpp>

namespace tandem {

/// A name in a file, or the parts that it begins with, and what the network has in its place.
struct Rename {
  std::string from;
  std::string to;
};

/// trainer.load_weights(path, {.prefix = "module.", .rename = {{"fc", "8"}}});
///
/// A callable std::string(std::string_view name_in_file) does in its place: it gives the network's
/// name, or "" for a tensor that is not to be looked at.
struct WeightNames {
  /// What stands before the names in the file; a tensor without it keeps its name.
  std::string prefix{};
  /// Behind the prefix: the first whose `from` is the name, or its beginning up to a dot.
  std::vector<Rename> rename{};

  template <class = void>  // compiled where it is called, not by every include
  [[nodiscard]] std::string operator()(std::string_view name) const {
    name.remove_prefix(name.starts_with(prefix) ? prefix.size() : 0);
    for (Rename const& rule : rename) {
      std::size_t const size = rule.from.size();
      if (name.starts_with(rule.from) &&
          (name.size() == size || name[size] == '.' || rule.from.ends_with('.'))) {
        return rule.to + std::string{name.substr(size)};
      }
    }
    return std::string{name};
  }
};

namespace detail {

/// How many letters are to be put in, taken out or exchanged to make @p b of @p a.
/// Cost: the product of their lengths.
template <class = void>
std::size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t const exchanged = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({exchanged, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

inline constexpr std::string_view beside_weights[] = {"optimizer.", "tandem.", "average.", "state.",
                                                      "second."};

/// The tensors of a file under the names of a network.
class FileWeights {
 public:
  /// @param file   outlives this
  /// @param names  names(name_in_file), as WeightNames
  /// @throws FileError  two tensors have one name
  template <class Names>
  FileWeights(Safetensors const& file, std::string const& path, Names const& names) : path_{path} {
    for (TensorView const& tensor : file.tensors()) {
      std::string name = names(std::string_view{tensor.name});
      if (!name.empty()) {
        entries_.push_back({std::move(name), &tensor});
      }
    }
    std::sort(entries_.begin(), entries_.end(), [](Entry const& a, Entry const& b) {
      return a.name != b.name ? a.name < b.name : a.tensor < b.tensor;  // as they stand in the file
    });
    for (std::size_t i = 1; i < entries_.size(); ++i) {
      if (entries_[i].name == entries_[i - 1].name) {
        throw FileError{path_, "tensors '" + printable(entries_[i - 1].tensor->name) + "' and '" +
                                   printable(entries_[i].tensor->name) + "' are both '" +
                                   printable(entries_[i].name) +
                                   "' by the prefix and the renames that were given; leave one out "
                                   "by a name of \"\", or rename it otherwise"};
      }
    }
  }

  /// Of this name of the network's, or null; and it is used.
  template <class = void>
  TensorView const* take(std::string_view name) {
    auto const at = std::lower_bound(
        entries_.begin(), entries_.end(), name,
        [](Entry const& entry, std::string_view n) { return std::string_view{entry.name} < n; });
    if (at == entries_.end() || at->name != name) {
      return nullptr;
    }
    at->used = true;
    return at->tensor;
  }

  /// Names in the file of those that were not taken, in the order of the network's names, but for
  /// what else a checkpoint has: optimizer states, position, averages, a second model.
  template <class = void>
  [[nodiscard]] std::vector<std::string> unused() const {
    std::vector<std::string> list;
    for (Entry const& entry : entries_) {
      bool const known =
          std::any_of(std::begin(beside_weights), std::end(beside_weights),
                      [&](std::string_view start) { return entry.name.starts_with(start); });
      if (!entry.used && !known) {
        list.push_back(entry.tensor->name);
      }
    }
    return list;
  }

  /// @param missing  names of the network's, one or more
  template <class = void>
  [[noreturn]] void fail_of(std::vector<std::string> const& missing) const {
    bool const one = missing.size() == 1;
    std::string text =
        (one ? "tensor " : "tensors ") + list_of(missing) + (one ? " is missing" : " are missing");
    std::vector<std::string> const others = unused();
    if (others.empty()) {
      throw FileError{path_, text + ", and nothing else is in the file: it is of another network"};
    }
    std::string const near = nearest(missing.front(), others);
    std::string const before = prefix_of(near, missing.front());
    text += "; the file has " + list_of(others) + " besides, of which '" + printable(near) +
            "' is nearest to '" + missing.front() + "': ";
    text += before.empty() ? "give load_weights(path, {.rename = {{in the file, in the network}}}) "
                             "if that is it, else the file is of another network"
                           : "give load_weights(path, {.prefix = \"" + printable(before) + "\"})";
    throw FileError{path_, text};
  }

 private:
  struct Entry {
    std::string name;  // the network's
    TensorView const* tensor;
    bool used = false;
  };

  template <class = void>
  static std::string list_of(std::vector<std::string> const& names) {
    constexpr std::size_t most = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
      text += (i == 0 ? "'" : ", '") + printable(names[i]) + "'";
    }
    return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                               : text;
  }
  // What stands before @p wanted in @p name, which ends with it behind a dot; else "".
  template <class = void>
  static std::string prefix_of(std::string_view name, std::string_view wanted) {
    bool const ends = name.size() > wanted.size() && name.ends_with(wanted) &&
                      name[name.size() - wanted.size() - 1] == '.';
    return std::string{ends ? name.substr(0, name.size() - wanted.size()) : ""};
  }
  template <class = void>
  static std::string nearest(std::string_view wanted, std::vector<std::string> const& names) {
    std::size_t least = 0;
    std::string const* best = nullptr;
    for (std::string const& name : names) {
      std::size_t const letters =
          prefix_of(name, wanted).empty() ? 1 + letters_between(name, wanted) : 0;
      if (best == nullptr || letters < least) {
        best = &name;
        least = letters;
      }
    }
    return *best;
  }

  std::string path_;
  std::vector<Entry> entries_;
};

}  // namespace detail

}  // namespace tandem
