// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OperationGraph: a graph of cuDNN from products, pointwise operations and reductions, which an
/// engine runs as one kernel or a few.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <cudnn.h>

#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/target.hpp>

namespace tandem::cuda::detail {

/// Extents or strides, in elements, of (batch, heads, rows, columns).
using Four = std::array<std::int64_t, 4>;

/// Of a tensor without gaps.
constexpr Four packed_strides(Four const& extents) {
  return {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1};
}

/// A tensor of one graph.
struct GraphTensor {
  std::size_t index = 0;
  Four extents{};
  Four strides{};
};

/// Tensors and operations in the order in which they are added. The user numbers what is in memory;
/// what passes between operations is numbered from `first_virtual` on.
class OperationGraph {
 public:
  static constexpr std::int64_t first_virtual = 1000;

  /// In the device's memory, at a multiple of 16 bytes, or of 4 if it is int32.
  GraphTensor memory(std::int64_t id, cudnnDataType_t type, Four const& extents,
                     Four const& strides) {
    return add(id, type, extents, strides, Place::memory);
  }
  GraphTensor memory(std::int64_t id, cudnnDataType_t type, Four const& extents) {
    return memory(id, type, extents, packed_strides(extents));
  }
  /// One number, which is in the host's memory and read when the graph is queued.
  GraphTensor number(std::int64_t id, cudnnDataType_t type) {
    return add(id, type, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::host);
  }
  /// The result of one operation and an operand of others, nowhere in memory.
  GraphTensor between(cudnnDataType_t type, Four const& extents, Four const& strides) {
    return add(next_virtual_++, type, extents, strides, Place::nowhere);
  }
  GraphTensor between(cudnnDataType_t type, Four const& extents) {
    return between(type, extents, packed_strides(extents));
  }

  /// y = mode(x) or mode(x, b), computed in @p math.
  void pointwise(cudnnPointwiseMode_t mode, GraphTensor const& x, GraphTensor const* b,
                 GraphTensor const& y, cudnnDataType_t math = CUDNN_DATA_FLOAT) {
    BackendDescriptor how = pointwise_descriptor(mode, math);
    how.finalize();
    add_pointwise(how, x, b, nullptr, y);
  }
  /// y = condition ? x : b
  void select(GraphTensor const& condition, GraphTensor const& x, GraphTensor const& b,
              GraphTensor const& y) {
    BackendDescriptor how = pointwise_descriptor(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT);
    how.finalize();
    add_pointwise(how, x, &b, &condition, y);
  }
  /// y = the place of each element of x on an axis, int32.
  void index(std::int64_t axis, GraphTensor const& x, GraphTensor const& y, cudnnDataType_t math) {
    BackendDescriptor how = pointwise_descriptor(CUDNN_POINTWISE_GEN_INDEX, math);
    how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    how.finalize();
    add_pointwise(how, x, nullptr, nullptr, y);
  }

  /// Which extents of a product, of each sample of the batch, are given by a tensor of int32.
  struct Lengths {
    GraphTensor const* rows = nullptr;
    GraphTensor const* columns = nullptr;
    GraphTensor const* sums = nullptr;
    bool pad = false;  ///< what is behind them is 0 in the product
  };
  /// c = a b of each batch and head, sums in fp32; heads of b may be shared by equal groups of a's.
  void product(GraphTensor const& a, GraphTensor const& b, GraphTensor const& c,
               Lengths const& lengths) {
    BackendDescriptor how{CUDNN_BACKEND_MATMUL_DESCRIPTOR};
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    if (lengths.pad) {
      how.set(CUDNN_ATTR_MATMUL_PADDING_VALUE, 0.0);
    }
    how.finalize();
    BackendDescriptor operation{CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR};
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, at(a));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, at(b));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, at(c));
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_if(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.rows);
    set_if(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.columns);
    set_if(operation, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.sums);
    add(std::move(operation));
  }

  /// y = x, each equal group of elements along an axis in which y is shorter made one.
  void reduce(cudnnReduceTensorOp_t operator_, GraphTensor const& x, GraphTensor const& y) {
    BackendDescriptor how{CUDNN_BACKEND_REDUCTION_DESCRIPTOR};
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, operator_);
    how.finalize();
    BackendDescriptor operation{CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR};
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, at(x));
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, at(y));
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add(std::move(operation));
  }

  /// y = x with rows and columns exchanged, in x's place.
  void transpose(GraphTensor const& x, GraphTensor const& y) {
    BackendDescriptor operation{CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR};
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, at(x));
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, at(y));
    add(std::move(operation));
  }

  /// @throws CuDnnError  cuDNN does not take the graph
  [[nodiscard]] BackendDescriptor finish(CuDnnTarget const& target) const {
    BackendDescriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
    target.describe_graph(graph);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
    graph.finalize();
    return graph;
  }

 private:
  enum class Place { memory, host, nowhere };

  GraphTensor add(std::int64_t id, cudnnDataType_t type, Four const& extents, Four const& strides,
                  Place place) {
    BackendDescriptor tensor{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
    tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<std::int64_t const>{extents});
    tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<std::int64_t const>{strides});
    tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{type == CUDNN_DATA_INT32 ? 4 : 16});
    if (place == Place::host) {
      tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    } else if (place == Place::nowhere) {
      tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    }
    tensor.finalize();
    tensors_.push_back(std::move(tensor));
    return {tensors_.size() - 1, extents, strides};
  }

  static BackendDescriptor pointwise_descriptor(cudnnPointwiseMode_t mode, cudnnDataType_t math) {
    BackendDescriptor how{CUDNN_BACKEND_POINTWISE_DESCRIPTOR};
    how.set(CUDNN_ATTR_POINTWISE_MODE, mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, math);
    return how;
  }
  void add_pointwise(BackendDescriptor const& how, GraphTensor const& x, GraphTensor const* b,
                     GraphTensor const* condition, GraphTensor const& y) {
    BackendDescriptor operation{CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR};
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
    set_if(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_if(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, condition);
    add(std::move(operation));
  }
  void set_if(BackendDescriptor& operation, cudnnBackendAttributeName_t name,
              GraphTensor const* tensor) const {
    if (tensor != nullptr) {
      operation.set(name, at(*tensor));
    }
  }
  void add(BackendDescriptor operation) {
    operation.finalize();
    operations_.push_back(std::move(operation));
  }
  [[nodiscard]] BackendDescriptor const& at(GraphTensor const& tensor) const {
    return tensors_[tensor.index];
  }

  std::vector<BackendDescriptor> tensors_;
  std::vector<BackendDescriptor> operations_;
  std::int64_t next_virtual_ = first_virtual;
};

}  // namespace tandem::cuda::detail
