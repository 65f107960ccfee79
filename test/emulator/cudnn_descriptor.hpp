// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Descriptors of the emulator's cuDNN: attributes by name, values as bytes or as descriptors.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <cudnn.h>

namespace cuda_emulator {

struct Descriptor;
using Shared = std::shared_ptr<Descriptor const>;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<char> bytes{};
  std::vector<Shared> descriptors{};
};

/// Also what the emulator hands out: engines and their configurations.
struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes{};

  [[nodiscard]] bool has(int name) const { return attributes.count(name) != 0; }

  /// @pre has(name)
  template <class Value>
  [[nodiscard]] Value value(int name, std::size_t i = 0) const {
    Value result{};
    std::memcpy(&result, attributes.at(name).bytes.data() + i * sizeof(Value), sizeof(Value));
    return result;
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(int name) const {
    std::vector<std::int64_t> list(static_cast<std::size_t>(attributes.at(name).count));
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i] = value<std::int64_t>(name, i);
    }
    return list;
  }
  [[nodiscard]] Descriptor const& descriptor(int name, std::size_t i = 0) const {
    return *attributes.at(name).descriptors.at(i);
  }

  template <class Value>
  void put(int name, cudnnBackendAttributeType_t tag, std::vector<Value> const& values) {
    Attribute a{tag, static_cast<std::int64_t>(values.size())};
    a.bytes.resize(values.size() * sizeof(Value));
    if (!values.empty()) {
      std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
    }
    attributes[name] = a;
  }
  void put(int name, std::vector<Shared> values) {
    Attribute a{CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(values.size())};
    a.descriptors = std::move(values);
    attributes[name] = a;
  }
};

/// Bytes of one value; 0 for kinds of values that are not emulated.
constexpr std::size_t value_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_DOUBLE:
      return 8;
    case CUDNN_TYPE_FLOAT:
    case CUDNN_TYPE_DATA_TYPE:
    case CUDNN_TYPE_CONVOLUTION_MODE:
    case CUDNN_TYPE_HEUR_MODE:
    case CUDNN_TYPE_NUMERICAL_NOTE:
    case CUDNN_TYPE_POINTWISE_MODE:
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
      return 4;
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 0;
  }
}

}  // namespace cuda_emulator
