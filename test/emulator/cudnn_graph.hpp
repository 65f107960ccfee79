// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The arithmetic of the emulator's cuDNN for graphs of products, pointwise operations, reductions
/// and transpositions: each operation after the other, in double, results rounded to their type.
///
/// What lengths leave out of a product is a NaN where the product is in memory, since cuDNN
/// promises nothing of it.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <cudnn.h>

#include "cudnn_descriptor.hpp"

namespace cuda_emulator {

inline thread_local std::string last_error;

inline cudnnStatus_t refuse(cudnnStatus_t status, std::string const& text) {
  last_error = text;
  return status;
}

inline bool is(Descriptor const& d, int name) { return d.has(name) && d.value<bool>(name); }
inline cudnnDataType_t type_of(Descriptor const& tensor) {
  return tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
}
inline std::array<std::int64_t, 4> four(Descriptor const& tensor, int name) {
  auto const list = tensor.numbers(name);
  return {list[0], list[1], list[2], list[3]};
}
inline std::array<std::int64_t, 4> extents_of(Descriptor const& tensor) {
  return four(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
}

inline std::size_t element_size(cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_HALF ? 2 : 4;
}

/// From a tensor's first element to behind its last.
inline std::size_t span_bytes(Descriptor const& tensor) {
  auto const extents = extents_of(tensor);
  auto const strides = four(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  std::int64_t last = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    last += (extents[k] - 1) * strides[k];
  }
  return static_cast<std::size_t>(last + 1) * element_size(type_of(tensor));
}

/// An operation's tensors, and those of other kinds that it has.
inline constexpr int tensor_names[] = {
    CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_TDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
    CUDNN_ATTR_OPERATION_MATMUL_ADESC,
    CUDNN_ATTR_OPERATION_MATMUL_BDESC,
    CUDNN_ATTR_OPERATION_MATMUL_CDESC,
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC,
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC,
    CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC,
    CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
    CUDNN_ATTR_OPERATION_REDUCTION_YDESC,
    CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
    CUDNN_ATTR_OPERATION_RESHAPE_YDESC,
};

/// The tensors that are in memory, the host's or the device's.
inline std::vector<Shared> memory_of(std::vector<Shared> const& operations) {
  std::map<std::int64_t, Shared> list;
  for (Shared const& operation : operations) {
    for (int const name : tensor_names) {
      if (operation->has(name)) {
        Shared const& tensor = operation->attributes.at(name).descriptors[0];
        if (!is(*tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
          list[tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)] = tensor;
        }
      }
    }
  }
  std::vector<Shared> result;
  for (auto const& [id, tensor] : list) {
    result.push_back(tensor);
  }
  return result;
}

/// Sizes that do not fit are refused where the operation is made.
inline cudnnStatus_t check_graph_operation(Descriptor const& d) {
  auto const needs = [&](std::initializer_list<int> names) {
    for (int const name : names) {
      if (!d.has(name)) {
        return false;
      }
    }
    return true;
  };
  auto const at = [&](int name) { return extents_of(d.descriptor(name)); };
  bool sound = false;
  switch (d.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      sound = needs({CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC}) &&
              at(CUDNN_ATTR_OPERATION_POINTWISE_XDESC) == at(CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
      break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      if (needs({CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
                 CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC})) {
        auto const a = at(CUDNN_ATTR_OPERATION_MATMUL_ADESC);
        auto const b = at(CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        auto const c = at(CUDNN_ATTR_OPERATION_MATMUL_CDESC);
        sound = a[0] == b[0] && a[1] % b[1] == 0 && a[3] == b[2] && c[0] == a[0] && c[1] == a[1] &&
                c[2] == a[2] && c[3] == b[3];
      }
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      if (needs({CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_ATTR_OPERATION_REDUCTION_XDESC,
                 CUDNN_ATTR_OPERATION_REDUCTION_YDESC})) {
        auto const x = at(CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        auto const y = at(CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
        sound = x[0] % y[0] == 0 && x[1] % y[1] == 0 && x[2] % y[2] == 0 && x[3] % y[3] == 0;
      }
      break;
    default:
      if (needs({CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_ATTR_OPERATION_RESHAPE_YDESC})) {
        auto const x = at(CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
        auto const y = at(CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
        sound = x[0] == y[0] && x[1] == y[1] && x[2] == y[3] && x[3] == y[2];
      }
  }
  return sound ? CUDNN_STATUS_SUCCESS
               : refuse(CUDNN_STATUS_BAD_PARAM, "an operation whose tensors do not fit");
}

}  // namespace cuda_emulator
