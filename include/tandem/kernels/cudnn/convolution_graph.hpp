// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ConvolutionTask: one pass of a convolution as cuDNN is asked for it, its operation graph, and
/// its engines.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cudnn.h>

#include <tandem/core/geometry.hpp>
#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/engines.hpp>
#include <tandem/kernels/cudnn/library.hpp>
#include <tandem/kernels/cudnn/target.hpp>
#include <tandem/runtime/cuda/stream.hpp>

namespace tandem::cuda {

enum class ConvolutionPass : unsigned char { forward, input_gradient, weight_gradient };

/// One pass over so many samples. Tensors are channels-last; sums are in fp32.
struct ConvolutionTask {
  ConvolutionPass pass = ConvolutionPass::forward;
  ConvolutionGeometry geometry{};
  std::int64_t batch = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;  ///< of all three tensors
  bool tensor_cores = false;                ///< allowed: Fp32 does without, since they round
  char const* precision = "";
  std::int64_t alignment = 16;  ///< bytes: of which each tensor's address is promised a multiple
};

/// The names by which a plan knows its three tensors.
enum TensorName : std::int64_t { tensor_x = 1, tensor_weight = 2, tensor_y = 3 };

/// "Conv2d of 64 to 128 channels in 1 group, kernel 3 x 3, …": for messages.
inline std::string to_string(ConvolutionTask const& task) {
  auto const extent = [](Extent2d e) {
    return std::to_string(e.height) + " x " + std::to_string(e.width);
  };
  ConvolutionGeometry const& g = task.geometry;
  char const* const pass[] = {"forward", "gradient of the input", "gradient of the weights"};
  return "Conv2d of " + std::to_string(g.in_channels) + " to " + std::to_string(g.out_channels) +
         " channels in " + std::to_string(g.groups) + (g.groups == 1 ? " group" : " groups") +
         ", kernel " + extent(g.window.kernel) + ", stride " + extent(g.window.stride) +
         ", padding " + extent(g.window.padding) +
         (g.window.dilation == Extent2d{} ? "" : ", dilation " + extent(g.window.dilation)) +
         ", images " + extent(g.in) + ", batch " + std::to_string(task.batch) + ", " +
         task.precision + ", " + pass[static_cast<int>(task.pass)];
}

namespace detail {

/// A tensor (n, c, h, w) that lies as (n, h, w, c).
inline BackendDescriptor make_tensor(TensorName name, ConvolutionTask const& task, std::int64_t n,
                                     std::int64_t c, std::int64_t h, std::int64_t w) {
  BackendDescriptor tensor{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<std::int64_t>(name));
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, task.type);
  tensor.set<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w});
  tensor.set<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c});
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, task.alignment);
  tensor.finalize();
  return tensor;
}

inline BackendDescriptor make_window(Window const& w) {
  BackendDescriptor window{CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR};
  window.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  window.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  window.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION);
  window.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, {w.dilation.height, w.dilation.width});
  window.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                           {w.stride.height, w.stride.width});
  window.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS,
                           {w.padding.height, w.padding.width});
  window.set<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
                           {w.padding.height, w.padding.width});
  window.finalize();
  return window;
}

/// The attributes of an operation, which go by other names in each pass.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, weight, y, window, alpha, beta;
};

constexpr OperationNames operation_names(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPass::input_gradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

/// A graph of one operation. cuDNN reads the number of groups off the channels of x and weight.
inline BackendDescriptor make_graph(CuDnnTarget const& target, ConvolutionTask const& task) {
  ConvolutionGeometry const& g = task.geometry;
  OperationNames const names = operation_names(task.pass);
  BackendDescriptor operation{names.type};
  operation.set(names.x,
                make_tensor(tensor_x, task, task.batch, g.in_channels, g.in.height, g.in.width));
  operation.set(names.weight,
                make_tensor(tensor_weight, task, g.out_channels, g.in_channels / g.groups,
                            g.window.kernel.height, g.window.kernel.width));
  operation.set(names.y,
                make_tensor(tensor_y, task, task.batch, g.out_channels, g.out.height, g.out.width));
  operation.set(names.window, make_window(g.window));
  operation.set(names.alpha, 1.0F);
  operation.set(names.beta, 0.0F);
  operation.finalize();
  BackendDescriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  target.describe_graph(graph);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  return graph;
}

inline std::vector<Engine> find_engines(CuDnnTarget const& target, ConvolutionTask const& task,
                                        std::int64_t workspace_limit, int most) {
  return find_engines(target, make_graph(target, task), task.tensor_cores, workspace_limit, most);
}

/// In the order of TensorName.
struct ConvolutionPointers {
  void const* x;
  void const* weight;
  void const* y;
};

inline void execute(CuDnnLibrary& library, Engine const& engine, Stream const& stream,
                    ConvolutionPointers const& at, std::byte* workspace) {
  std::int64_t const ids[] = {tensor_x, tensor_weight, tensor_y};
  void* const pointers[] = {const_cast<void*>(at.x), const_cast<void*>(at.weight),
                            const_cast<void*>(at.y)};
  execute(library, engine, stream, ids, pointers, workspace);
}

}  // namespace detail

}  // namespace tandem::cuda
