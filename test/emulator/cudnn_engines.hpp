// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which graphs the emulator's cuDNN takes, and the engines that it suggests for them: graphs of
/// one convolution, and those of many operations, which are attention's.

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <cudnn.h>

#include "cudnn_convolution.hpp"
#include "cudnn_descriptor.hpp"
#include "cudnn_graph.hpp"

namespace cuda_emulator {

inline constexpr int graph_handle = 800;  // deprecated names of the header
inline constexpr int plan_handle = 400;

enum Engine : std::int64_t { varying = 1, rounding, declining, greedy, tensor_core, plain, small };

/// An operation in the names of one pass.
struct Operation {
  ConvolutionKind kind;
  int x, weight, y, window, alpha, beta;
};

inline bool find_operation(cudnnBackendDescriptorType_t type, Operation& to) {
  switch (type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      to = {ConvolutionKind::forward,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
      return true;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      to = {ConvolutionKind::backward_data,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
      return true;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      to = {ConvolutionKind::backward_filter,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
      return true;
    default:
      return false;
  }
}

inline std::int64_t elements(Descriptor const& tensor) {
  std::int64_t product = 1;
  for (std::int64_t const d : tensor.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS)) {
    product *= d;
  }
  return product;
}

inline std::int64_t element_bytes(Descriptor const& tensor) {
  return tensor.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) == CUDNN_DATA_FLOAT ? 4 : 2;
}

inline bool channels_last(Descriptor const& tensor) {
  auto const d = tensor.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  return tensor.numbers(CUDNN_ATTR_TENSOR_STRIDES) ==
         std::vector<std::int64_t>{d[2] * d[3] * d[1], 1, d[3] * d[1], d[1]};
}

/// What an execution of an operation computes; the pointers are not set.
inline ConvolutionJob job_of(Descriptor const& operation, Operation const& names) {
  auto const x = operation.descriptor(names.x).numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const w = operation.descriptor(names.weight).numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const y = operation.descriptor(names.y).numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  Descriptor const& window = operation.descriptor(names.window);
  auto const pair = [](std::int64_t a, std::int64_t b) {
    return tandem::Extent2d{static_cast<int>(a), static_cast<int>(b)};
  };
  auto const stride = window.numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
  auto const padding = window.numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
  auto const dilation = window.numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  ConvolutionJob job;
  job.kind = names.kind;
  job.batch = static_cast<int>(x[0]);
  job.half = element_bytes(operation.descriptor(names.x)) == 2;
  job.ieee = operation.descriptor(names.x).value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE) ==
             CUDNN_DATA_HALF;
  job.geometry = {static_cast<int>(x[1]),
                  static_cast<int>(y[1]),
                  static_cast<int>(x[1] / w[1]),
                  pair(x[2], x[3]),
                  pair(y[2], y[3]),
                  {pair(w[2], w[3]), pair(stride[0], stride[1]), pair(padding[0], padding[1]),
                   pair(dilation[0], dilation[1])}};
  return job;
}

inline cudnnStatus_t check_tensor(Descriptor const& d) {
  if (!d.has(CUDNN_ATTR_TENSOR_UNIQUE_ID) || !d.has(CUDNN_ATTR_TENSOR_DATA_TYPE) ||
      !d.has(CUDNN_ATTR_TENSOR_DIMENSIONS) || !d.has(CUDNN_ATTR_TENSOR_STRIDES) ||
      !d.has(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor lacks an attribute");
  }
  auto const dimensions = d.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const strides = d.numbers(CUDNN_ATTR_TENSOR_STRIDES);
  bool positive = dimensions.size() == 4 && strides.size() == 4;
  for (std::size_t i = 0; positive && i < 4; ++i) {
    positive = dimensions[i] > 0 && strides[i] > 0;
  }
  return positive ? CUDNN_STATUS_SUCCESS
                  : refuse(CUDNN_STATUS_BAD_PARAM, "a tensor wants four positive dimensions");
}

inline cudnnStatus_t check_window(Descriptor const& d) {
  for (int const name :
       {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
        CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    if (!d.has(name) || d.numbers(name).size() != 2) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a window wants two numbers of each kind");
    }
  }
  bool const sound =
      d.has(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) && d.has(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) &&
      d.has(CUDNN_ATTR_CONVOLUTION_CONV_MODE) &&
      d.value<std::int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) == 2 &&
      d.value<cudnnDataType_t>(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) == CUDNN_DATA_FLOAT &&
      d.value<cudnnConvolutionMode_t>(CUDNN_ATTR_CONVOLUTION_CONV_MODE) ==
          CUDNN_CROSS_CORRELATION &&
      d.numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS) ==
          d.numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
  return sound ? CUDNN_STATUS_SUCCESS
               : refuse(CUDNN_STATUS_NOT_SUPPORTED, "a window that is not emulated");
}

inline cudnnStatus_t check_operation(Descriptor const& d, Operation const& names) {
  for (int const name : {names.x, names.weight, names.y, names.window, names.alpha, names.beta}) {
    if (!d.has(name)) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "an operation lacks an attribute");
    }
  }
  if (d.value<float>(names.alpha) != 1.0F || d.value<float>(names.beta) != 0.0F) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "factors that are not emulated");
  }
  auto const x = d.descriptor(names.x).numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const w = d.descriptor(names.weight).numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  auto const y = d.descriptor(names.y).numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  if (x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "channels that do not fit the filter");
  }
  tandem::ConvolutionGeometry const g = job_of(d, names).geometry;
  if (x[0] != y[0] || w[0] != y[1] || !(g.window.positions(g.in) == g.out)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "an output of the wrong size");
  }
  return CUDNN_STATUS_SUCCESS;
}

inline Shared make_configuration(Shared const& graph, Engine id,
                                 std::vector<cudnnBackendNumericalNote_t> const& notes) {
  auto engine = std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINE_DESCRIPTOR, true});
  engine->put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph});
  engine->put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, std::vector<std::int64_t>{id});
  engine->put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  auto configuration =
      std::make_shared<Descriptor>(Descriptor{CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, true});
  configuration->put(CUDNN_ATTR_ENGINECFG_ENGINE, {engine});
  return configuration;
}

inline cudnnStatus_t suggest(Descriptor& d) {
  Shared const graph = d.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).descriptors[0];
  Descriptor const& operation = graph->descriptor(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  Operation names{};
  if (!find_operation(operation.type, names)) {
    d.put(CUDNN_ATTR_ENGINEHEUR_RESULTS,
          std::vector<Shared>{
              make_configuration(graph, varying, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}),
              make_configuration(graph, declining, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}),
              make_configuration(graph, tensor_core, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE})});
    return CUDNN_STATUS_SUCCESS;
  }
  std::vector<Shared> list;
  bool supported = true;
  for (int const name : {names.x, names.weight, names.y}) {
    Descriptor const& tensor = operation.descriptor(name);
    supported = supported && channels_last(tensor) &&
                element_bytes(tensor) == element_bytes(operation.descriptor(names.x));
  }
  if (supported &&
      d.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A) {
    list = {make_configuration(graph, varying, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}),
            make_configuration(graph, rounding, {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS}),
            make_configuration(graph, declining, {}),
            make_configuration(graph, greedy, {}),
            make_configuration(graph, tensor_core, {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}),
            make_configuration(graph, plain, {})};
  } else if (supported) {
    list = {make_configuration(graph, small, {})};
  }
  d.put(CUDNN_ATTR_ENGINEHEUR_RESULTS, list);
  return CUDNN_STATUS_SUCCESS;
}

inline Descriptor const& engine_of(Descriptor const& plan) {
  return plan.descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
      .descriptor(CUDNN_ATTR_ENGINECFG_ENGINE);
}

inline std::vector<Shared> const& operations_of(Descriptor const& plan) {
  return engine_of(plan)
      .descriptor(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)
      .attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)
      .descriptors;
}
inline Descriptor const& operation_of(Descriptor const& plan) { return *operations_of(plan)[0]; }

/// As cuDNN's engines of 9.19 do, it wants whole packs of 8 numbers in a head, and for the gradient
/// a matrix of scores in 16 bits.
inline cudnnStatus_t finish_attention_plan(Descriptor& d, std::vector<Shared> const& operations) {
  std::int64_t bytes = 256;
  bool gradient = false;
  for (Shared const& operation : operations) {
    gradient = gradient || operation->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
  }
  for (Shared const& operation : operations) {
    if (operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
      auto const a = operation->descriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC)
                         .numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
      auto const c = operation->descriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC)
                         .numbers(CUDNN_ATTR_TENSOR_DIMENSIONS);
      if (a[3] != a[2] && a[3] % 8 != 0) {
        return refuse(CUDNN_STATUS_NOT_SUPPORTED, "heads that are no whole packs");
      }
      bytes += gradient && c[2] == c[3] ? c[0] * c[1] * c[2] * c[3] : 0;
    }
  }
  d.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
        std::vector<std::int64_t>{bytes});
  return CUDNN_STATUS_SUCCESS;
}

inline cudnnStatus_t finish_plan(Descriptor& d) {
  auto const id = engine_of(d).value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (id == declining) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "this engine declines");
  }
  Operation names{};
  if (!find_operation(operation_of(d).type, names)) {
    return finish_attention_plan(d, operations_of(d));
  }
  Descriptor const& first =
      operation_of(d).descriptor(names.kind == ConvolutionKind::backward_data ? names.y : names.x);
  std::int64_t const bytes = id == greedy  ? std::int64_t{1} << 40
                             : id == small ? 0
                                           : elements(first) * element_bytes(first);
  d.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
        std::vector<std::int64_t>{bytes});
  return CUDNN_STATUS_SUCCESS;
}

inline cudnnStatus_t finish(Descriptor& d) {
  auto const needs = [&](std::initializer_list<int> names) {
    for (int const name : names) {
      if (!d.has(name)) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor lacks an attribute");
      }
    }
    return CUDNN_STATUS_SUCCESS;
  };
  Operation names{};
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (find_operation(d.type, names)) {
    return check_operation(d, names);
  }
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return check_tensor(d);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return check_window(d);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      return needs({CUDNN_ATTR_POINTWISE_MODE, CUDNN_ATTR_POINTWISE_MATH_PREC});
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
      return needs({CUDNN_ATTR_MATMUL_COMP_TYPE});
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
      return needs({CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_ATTR_REDUCTION_COMP_TYPE});
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return check_graph_operation(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return needs({graph_handle, CUDNN_ATTR_OPERATIONGRAPH_OPS});
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      status = needs({CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_ATTR_ENGINEHEUR_MODE});
      return status == CUDNN_STATUS_SUCCESS ? suggest(d) : status;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      status = needs({plan_handle, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG});
      return status == CUDNN_STATUS_SUCCESS ? finish_plan(d) : status;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return needs({CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                    CUDNN_ATTR_VARIANT_PACK_WORKSPACE});
    default:
      return refuse(CUDNN_STATUS_NOT_SUPPORTED, "a descriptor that is not emulated");
  }
}

}  // namespace cuda_emulator
