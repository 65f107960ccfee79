// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// BackendDescriptor: an owned descriptor of cuDNN's backend API with typed attributes.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <cudnn.h>

#include <tandem/core/unique_handle.hpp>
#include <tandem/kernels/cudnn/library.hpp>

namespace tandem::cuda {

namespace detail {

/// The tag by which cuDNN knows a C++ type.
template <class Value>
inline constexpr cudnnBackendAttributeType_t cudnn_tag = Value::tag;
template <>
inline constexpr auto cudnn_tag<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto cudnn_tag<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto cudnn_tag<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto cudnn_tag<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto cudnn_tag<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto cudnn_tag<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto cudnn_tag<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto cudnn_tag<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;
template <>
inline constexpr auto cudnn_tag<bool> = CUDNN_TYPE_BOOLEAN;
template <>
inline constexpr auto cudnn_tag<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto cudnn_tag<double> = CUDNN_TYPE_DOUBLE;
template <>
inline constexpr auto cudnn_tag<cudnnPointwiseMode_t> = CUDNN_TYPE_POINTWISE_MODE;
template <>
inline constexpr auto cudnn_tag<cudnnReduceTensorOp_t> = CUDNN_TYPE_REDUCTION_OPERATOR_TYPE;

}  // namespace detail

/// Attributes are set, then the descriptor is finalized, then it is read or used. Move-only.
class BackendDescriptor {
 public:
  explicit BackendDescriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t descriptor = nullptr;
    check(cudnnBackendCreateDescriptor(type, &descriptor));
    handle_ = UniqueHandle<cudnnBackendDescriptor_t, cudnnBackendDestroyDescriptor>{descriptor};
  }

  template <class Value>
  void set(cudnnBackendAttributeName_t name, std::span<Value const> values) {
    check(cudnnBackendSetAttribute(get(), name, detail::cudnn_tag<Value>,
                                   static_cast<std::int64_t>(values.size()), values.data()));
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, std::initializer_list<Value> values) {
    set(name, std::span<Value const>{values.begin(), values.size()});
  }
  template <class Value>
  void set(cudnnBackendAttributeName_t name, Value value) {
    set(name, std::span<Value const>{&value, 1});
  }
  void set(cudnnBackendAttributeName_t name, BackendDescriptor const& value) {
    cudnnBackendDescriptor_t const raw = value.get();
    check(cudnnBackendSetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw));
  }

  void set(cudnnBackendAttributeName_t name, std::vector<BackendDescriptor> const& values) {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (BackendDescriptor const& value : values) {
      raw.push_back(value.get());
    }
    check(cudnnBackendSetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<std::int64_t>(raw.size()), raw.data()));
  }

  void finalize() { check(cudnnBackendFinalize(get())); }

  /// For descriptors that cuDNN may decline: an engine that does not support its operation.
  [[nodiscard]] cudnnStatus_t try_finalize() { return cudnnBackendFinalize(get()); }

  /// Up to @p most values of an attribute.
  template <class Value>
  [[nodiscard]] std::vector<Value> values(cudnnBackendAttributeName_t name,
                                          std::int64_t most) const {
    std::vector<Value> list(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    check(
        cudnnBackendGetAttribute(get(), name, detail::cudnn_tag<Value>, most, &count, list.data()));
    list.resize(static_cast<std::size_t>(count < most ? count : most));
    return list;
  }
  [[nodiscard]] std::int64_t number(cudnnBackendAttributeName_t name) const {
    return values<std::int64_t>(name, 1).at(0);
  }

  /// Descriptors of @p type that an attribute holds, as copies.
  [[nodiscard]] std::vector<BackendDescriptor> descriptors(
      cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type) const {
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
    std::vector<BackendDescriptor> list;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::int64_t i = 0; i < count; ++i) {
      raw.push_back(list.emplace_back(type).get());
    }
    check(cudnnBackendGetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
                                   raw.data()));
    list.erase(list.begin() + count, list.end());
    return list;
  }

  [[nodiscard]] cudnnBackendDescriptor_t get() const noexcept { return handle_.get(); }

 private:
  UniqueHandle<cudnnBackendDescriptor_t, cudnnBackendDestroyDescriptor> handle_;
};

}  // namespace tandem::cuda
