// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Edits of a safetensors file, four bytes each, so that most of what a fuzzer tries gets behind
/// the header's syntax and the checksums, and no input is larger than a few of them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/io/safetensors/all.hpp>

#include <fuzz/require.hpp>

namespace fuzz {

/// What is in a file, with data of its own.
class EditedFile {
 public:
  explicit EditedFile(std::string_view bytes) {
    auto const file = tandem::Safetensors::parse(std::as_bytes(std::span{bytes}), "base");
    metadata_ = file.metadata();
    for (tandem::TensorView const& t : file.tensors()) {
      tensors_.push_back({{t.name, t.dtype, t.shape},
                          {reinterpret_cast<char const*>(t.data.data()), t.data.size()}});
    }
  }

  /// One edit: what, which, where, and a value. Any bytes will do.
  void edit(std::uint8_t what, std::uint8_t which, std::uint8_t where, std::uint8_t value) {
    constexpr std::array<double, 10> numbers{0.0, -1.0, 1e38, 1e-45, 1e308, 1.0, -1e300, 2.0, 7.0};
    constexpr std::int64_t end = std::int64_t{1} << 53;
    constexpr std::array<std::int64_t, 8> positions{0,         -1,        end, end + 1,
                                                    INT64_MAX, INT64_MIN, 3,   1};
    Tensor& t = tensors_[which % tensors_.size()];
    Tensor& other = tensors_[where % tensors_.size()];
    auto& [key, text] = metadata_[which % metadata_.size()];
    switch (what % 16) {
      case 0:
        if (tensors_.size() > 1) {
          tensors_.erase(tensors_.begin() + (&t - tensors_.data()));
        }
        break;
      case 1:
        tensors_.push_back(t);
        changed(tensors_.back().spec.name, where, value);
        break;
      case 2:
        changed(t.spec.name, where, value);
        break;
      case 3:
        t.spec.name = value % 2 == 0 ? "second." + t.spec.name : "optimizer." + t.spec.name;
        break;
      case 4:
        t.spec.dtype = tandem::Dtype{value % 12};
        fit(t);
        break;
      case 5:
        t.spec.shape.insert(t.spec.shape.begin() + where % (t.spec.shape.size() + 1), value % 4);
        fit(t);
        break;
      case 6:
        if (!t.spec.shape.empty()) {
          t.spec.shape[where % t.spec.shape.size()] = value;
          fit(t);
        }
        break;
      case 7:
        std::swap(t.spec.name, other.spec.name);
        break;
      case 8:
        std::swap(t, other);
        break;
      case 9:
        put(t, where, static_cast<float>(std::clamp(numbers[value % numbers.size()], -3e38, 3e38)));
        break;
      case 10:
        put(t, where, value % 2 == 0 ? 0x7FC00000U : 0x7F800000U);  // NaN and infinity in fp32
        break;
      case 11:
        for (Tensor& position : tensors_) {
          if (position.spec.name.starts_with("tandem.")) {
            put(position, 0, positions[(which + where) % positions.size()]);
          }
        }
        break;
      case 12:
        changed(value % 2 == 0 ? key : text, where, value);
        break;
      case 13:
        if (metadata_.size() > 1) {
          metadata_.erase(metadata_.begin() +
                          static_cast<std::ptrdiff_t>(which % metadata_.size()));
        }
        break;
      case 14:
        true_checksums_ = value % 2 == 0;
        break;
      default:
        bytes_.push_back({static_cast<std::size_t>(which) << 8 | where, value});
        break;
    }
  }

  /// The file's bytes after all edits: tensors and metadata first, then checksums, then bytes.
  [[nodiscard]] std::string bytes() const {
    std::vector<tandem::TensorSpec> specs;
    std::vector<tandem::TensorView> views;
    for (Tensor const& t : tensors_) {
      specs.push_back(t.spec);
      views.push_back({t.spec.name, t.spec.dtype, t.spec.shape, std::as_bytes(std::span{t.data})});
    }
    std::string file = tandem::detail::write_safetensors_header(
        specs, true_checksums_ ? tandem::with_checksums(views, metadata_) : metadata_);
    for (Tensor const& t : tensors_) {
      file += t.data;
    }
    for (auto const& [at, value] : bytes_) {
      if (value == 0) {
        file.resize(at % file.size() + 1);
      } else {
        char& byte = file[at % file.size()];
        byte = static_cast<char>(byte ^ value);
      }
    }
    return file;
  }

 private:
  struct Tensor {
    tandem::TensorSpec spec;
    std::string data;
  };

  /// Another character, or one more.
  static void changed(std::string& text, std::uint8_t where, std::uint8_t value) {
    if (where % 2 == 0 || text.empty()) {
      text.insert(text.begin() + static_cast<std::ptrdiff_t>(where % (text.size() + 1)),
                  static_cast<char>(value));
    } else {
      text[where % text.size()] = static_cast<char>(value);
    }
  }
  /// Data as long as type and shape say, up to a limit; else no extents.
  static void fit(Tensor& t) {
    auto const bytes = tandem::tensor_bytes(t.spec.dtype, t.spec.shape);
    if (!bytes || *bytes > 1 << 14) {
      t.spec.shape.clear();
    }
    t.data.resize(static_cast<std::size_t>(*tandem::tensor_bytes(t.spec.dtype, t.spec.shape)));
  }
  template <class T>
  static void put(Tensor& t, std::size_t where, T value) {
    if (t.data.size() >= sizeof value) {
      std::memcpy(t.data.data() + where % (t.data.size() / sizeof value) * sizeof value, &value,
                  sizeof value);
    }
  }

  std::vector<Tensor> tensors_;
  tandem::SafetensorsMetadata metadata_;
  bool true_checksums_ = true;
  std::vector<std::pair<std::size_t, std::uint8_t>> bytes_;
};

}  // namespace fuzz
