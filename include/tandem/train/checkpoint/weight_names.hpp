// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// WeightNames: how a file names tensors that the network calls otherwise; and FileWeights, a file
/// read by such names.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/core/function_ref.hpp>
#include <tandem/core/printable.hpp>
#include <tandem/io/safetensors/all.hpp>

namespace tandem {

/// A name in a file, or the parts that it begins with, and what the network has in its place. A
/// `to` of "" takes these parts away, and leaves a tensor out whose whole name they are.
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

  TANDEM_ONCE [[nodiscard]] std::string operator()(std::string_view name) const;
};

namespace detail {

TANDEM_ONCE std::string to_string(std::vector<std::int64_t> const& shape);

/// names(name_in_file), as WeightNames.
using NameInNetwork = FunctionRef<std::string(std::string_view)>;

inline constexpr std::string_view beside_weights[] = {"optimizer.", "tandem.", "average.", "state.",
                                                      "second."};

/// The tensors of a file under the names of a network.
class FileWeights {
 public:
  /// @param file   outlives this
  /// @throws FileError  two tensors have one name
  TANDEM_ONCE FileWeights(Safetensors const& file, std::string const& path, NameInNetwork names);

  /// Of this name of the network's, or null; and it is used.
  TANDEM_ONCE TensorView const* take(std::string_view name);

  /// Names in the file of those that were not taken, in the order of the network's names, but for
  /// what else a checkpoint has: optimizer states, position, averages, a second model.
  TANDEM_ONCE [[nodiscard]] std::vector<std::string> unused() const;

  /// @param missing  names of the network's, one or more
  /// @param shape    of the first of them
  TANDEM_ONCE [[noreturn]] void fail_of(std::vector<std::string> const& missing,
                                        std::vector<std::int64_t> const& shape) const;

 private:
  struct Entry {
    std::string name;  // the network's
    TensorView const* tensor;
    bool used = false;
  };

  TANDEM_ONCE static bool is_beside_weights(std::string_view name);

  TANDEM_ONCE [[nodiscard]] std::vector<TensorView const*> unused_tensors() const;

  TANDEM_ONCE static std::vector<std::string> names_of(
      std::vector<TensorView const*> const& tensors);

  TANDEM_ONCE static std::string list_of(std::vector<std::string> const& names);
  // What stands before @p wanted in @p name, which ends with it behind a dot; else "".
  TANDEM_ONCE static std::string prefix_of(std::string_view name, std::string_view wanted);
  // The first with a prefix before the name; else of those that have the shape, or of all if none
  // has it, that whose name is nearest.
  TANDEM_ONCE static TensorView const& nearest(std::string_view wanted,
                                               std::vector<std::int64_t> const& shape,
                                               std::vector<TensorView const*> const& tensors);

  std::string path_;
  std::vector<Entry> entries_;
  std::vector<TensorView const*> left_out_;  // but for what else a checkpoint has
};

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string WeightNames::operator()(std::string_view name) const {
  name.remove_prefix(name.starts_with(prefix) ? prefix.size() : 0);
  for (Rename const& rule : rename) {
    std::size_t const size = rule.from.size();
    if (name.starts_with(rule.from) &&
        (name.size() == size || name[size] == '.' || rule.from.ends_with('.'))) {
      bool const dot = rule.to.empty() && name.substr(size).starts_with('.');
      return rule.to + std::string{name.substr(size + (dot ? 1 : 0))};
    }
  }
  return std::string{name};
}

}  // namespace tandem

namespace tandem::detail {

TANDEM_ONCE FileWeights::FileWeights(Safetensors const& file, std::string const& path,
                                     NameInNetwork names)
    : path_{path} {
  for (TensorView const& tensor : file.tensors()) {
    std::string name = names(std::string_view{tensor.name});
    if (!name.empty()) {
      entries_.push_back({std::move(name), &tensor});
    } else if (!is_beside_weights(tensor.name)) {
      left_out_.push_back(&tensor);
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

/// How many letters are to be put in, taken out or exchanged to make @p b of @p a.
/// Cost: the product of their lengths.
TANDEM_ONCE std::size_t letters_between(std::string_view a, std::string_view b) {
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

TANDEM_ONCE std::string to_string(std::vector<std::int64_t> const& shape) {
  std::string text;
  for (std::int64_t const extent : shape) {
    text += text.empty() ? "" : " ";
    text += std::to_string(extent);
  }
  return "(" + text + ")";
}

TANDEM_ONCE TensorView const* FileWeights::take(std::string_view name) {
  auto const at = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](Entry const& entry, std::string_view n) { return std::string_view{entry.name} < n; });
  if (at == entries_.end() || at->name != name) {
    return nullptr;
  }
  at->used = true;
  return at->tensor;
}

TANDEM_ONCE std::vector<std::string> FileWeights::unused() const {
  return names_of(unused_tensors());
}

TANDEM_ONCE void FileWeights::fail_of(std::vector<std::string> const& missing,
                                      std::vector<std::int64_t> const& shape) const {
  auto const verb = [](auto const& list) { return list.size() == 1 ? " is " : " are "; };
  std::string const& first = missing.front();
  std::string text =
      (missing.size() == 1 ? "tensor " : "tensors ") + list_of(missing) + verb(missing) + "missing";
  if (!left_out_.empty()) {
    text += "; " + list_of(names_of(left_out_)) + " of the file" + verb(left_out_) +
            "left out by a name of \"\"";
  }
  std::vector<TensorView const*> const others = unused_tensors();
  if (others.empty()) {
    text += left_out_.empty() ? ", and nothing else is in the file: it is of another network" : "";
    throw FileError{path_, text};
  }
  TensorView const& near = nearest(first, shape, others);
  std::string const before = prefix_of(near.name, first);
  text += "; the file has " + list_of(names_of(others)) + " besides, of which '" +
          printable(near.name) + "' is nearest to '" + first + "'";
  if (!before.empty()) {
    text += ": give {.prefix = \"" + printable(before) + "\"} after the path";
  } else if (near.shape != shape) {
    text += ", but is " + to_string(near.shape) + " and not " + to_string(shape) +
            ": the file is of another network";
  } else {
    text +=
        ": give {.rename = {{in the file, in the network}}} after the path if that is it, "
        "else the file is of another network";
  }
  throw FileError{path_, text};
}

TANDEM_ONCE bool FileWeights::is_beside_weights(std::string_view name) {
  return std::any_of(std::begin(beside_weights), std::end(beside_weights),
                     [&](std::string_view start) { return name.starts_with(start); });
}

TANDEM_ONCE std::vector<TensorView const*> FileWeights::unused_tensors() const {
  std::vector<TensorView const*> list;
  for (Entry const& entry : entries_) {
    if (!entry.used && !is_beside_weights(entry.name)) {
      list.push_back(entry.tensor);
    }
  }
  return list;
}

TANDEM_ONCE std::vector<std::string> FileWeights::names_of(
    std::vector<TensorView const*> const& tensors) {
  std::vector<std::string> names;
  for (TensorView const* const tensor : tensors) {
    names.push_back(tensor->name);
  }
  return names;
}

TANDEM_ONCE std::string FileWeights::list_of(std::vector<std::string> const& names) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "'" : ", '") + printable(names[i]) + "'";
  }
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " more"
                             : text;
}

TANDEM_ONCE std::string FileWeights::prefix_of(std::string_view name, std::string_view wanted) {
  bool const ends = name.size() > wanted.size() && name.ends_with(wanted) &&
                    name[name.size() - wanted.size() - 1] == '.';
  return std::string{ends ? name.substr(0, name.size() - wanted.size()) : ""};
}

TANDEM_ONCE TensorView const& FileWeights::nearest(std::string_view wanted,
                                                   std::vector<std::int64_t> const& shape,
                                                   std::vector<TensorView const*> const& tensors) {
  std::pair<int, std::size_t> least{};
  TensorView const* best = nullptr;
  for (TensorView const* const tensor : tensors) {
    std::pair<int, std::size_t> distance{};
    if (prefix_of(tensor->name, wanted).empty()) {
      distance = {tensor->shape == shape ? 1 : 2, letters_between(tensor->name, wanted)};
    }
    if (best == nullptr || distance < least) {
      best = tensor;
      least = distance;
    }
  }
  return *best;
}

}  // namespace tandem::detail

#endif
