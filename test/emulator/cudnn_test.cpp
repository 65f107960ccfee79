// SPDX-License-Identifier: Apache-2.0

/// @file
/// The emulated cuDNN refuses what the library refuses: unfinished descriptors, sizes that do not
/// fit, other layouts, tensors of two types, and memory of the host.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <tandem/kernels/cudnn/convolution_graph.hpp>
#include <tandem/kernels/cudnn/engines.hpp>
#include <tandem/kernels/cudnn/operation_graph.hpp>
#include <tandem/runtime/cuda/buffer.hpp>
#include <tandem/runtime/cuda/rank_device.hpp>

namespace {

namespace api = tandem::cuda;
using api::BackendDescriptor;
using api::CuDnnError;

api::ConvolutionTask task() {
  api::ConvolutionTask t;
  t.geometry = {4, 8, 1, {5, 5}, {5, 5}, {{3, 3}, {1, 1}, {1, 1}}};
  t.batch = 2;
  return t;
}

BackendDescriptor tensor(cudnnDataType_t type, std::vector<std::int64_t> const& dimensions,
                         std::vector<std::int64_t> const& strides, std::int64_t id) {
  BackendDescriptor t{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span{dimensions});
  t.set(CUDNN_ATTR_TENSOR_STRIDES, std::span{strides});
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  t.finalize();
  return t;
}

TEST_CASE("cuDNN: descriptors that lack something, or are set when they are final") {
  BackendDescriptor t{CUDNN_BACKEND_TENSOR_DESCRIPTOR};
  CHECK_THROWS_WITH_AS(t.finalize(), doctest::Contains("lacks an attribute"), CuDnnError);
  CHECK_THROWS_AS(tensor(CUDNN_DATA_FLOAT, {1, 2, 3}, {6, 3, 1}, 1), CuDnnError);
  CHECK_THROWS_AS(tensor(CUDNN_DATA_FLOAT, {0, 2, 3, 1}, {6, 3, 1, 1}, 1), CuDnnError);
  BackendDescriptor done = tensor(CUDNN_DATA_FLOAT, {1, 2, 3, 4}, {24, 1, 8, 2}, 1);
  CHECK_THROWS_WITH_AS(done.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{2}),
                       doctest::Contains("is final"), CuDnnError);
  CHECK_THROWS_AS(done.finalize(), CuDnnError);
  BackendDescriptor operation{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
  CHECK_THROWS_WITH_AS(operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, t),
                       doctest::Contains("not final"), CuDnnError);
}

TEST_CASE("cuDNN: sizes that do not fit the window or the groups") {
  api::RankDevice device{api::Device{0}};
  auto const& library = device.library<api::CuDnnLibrary>();
  api::ConvolutionTask t = task();
  CHECK_NOTHROW(api::detail::make_graph(library, t));
  t.geometry.out = {4, 5};
  CHECK_THROWS_WITH_AS(api::detail::make_graph(library, t), doctest::Contains("wrong size"),
                       CuDnnError);
  t = task();
  t.geometry.in_channels = 6;
  t.geometry.groups = 3;  // 8 outputs are not divided by 3
  CHECK_THROWS_WITH_AS(api::detail::make_graph(library, t), doctest::Contains("do not fit"),
                       CuDnnError);
}

/// The engines for a forward pass whose tensors are given.
std::size_t engines(api::CuDnnLibrary const& library, BackendDescriptor const& x,
                    BackendDescriptor const& w, BackendDescriptor const& y) {
  BackendDescriptor operation{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR};
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                api::detail::make_window(tandem::Window{}));
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0F);
  operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0F);
  operation.finalize();
  BackendDescriptor graph{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  graph.set(api::detail::cudnn_graph_handle, library.get());
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();
  return api::detail::suggestions(library, graph, CUDNN_HEUR_MODE_A).size();
}

TEST_CASE("cuDNN: no engine for another layout, nor for tensors of two types") {
  api::RankDevice device{api::Device{0}};
  auto const& library = device.library<api::CuDnnLibrary>();
  auto const last = [](cudnnDataType_t type, std::int64_t id) {
    return tensor(type, {2, 4, 3, 3}, {36, 1, 12, 4}, id);
  };
  auto const weight = [](cudnnDataType_t type) {
    return tensor(type, {4, 4, 1, 1}, {4, 1, 4, 4}, 2);
  };
  CHECK(engines(library, last(CUDNN_DATA_FLOAT, 1), weight(CUDNN_DATA_FLOAT),
                last(CUDNN_DATA_FLOAT, 3)) == 6);
  CHECK(engines(library, last(CUDNN_DATA_BFLOAT16, 1), weight(CUDNN_DATA_FLOAT),
                last(CUDNN_DATA_BFLOAT16, 3)) == 0);
  CHECK(engines(library, tensor(CUDNN_DATA_FLOAT, {2, 4, 3, 3}, {36, 9, 3, 1}, 1),
                weight(CUDNN_DATA_FLOAT), last(CUDNN_DATA_FLOAT, 3)) == 0);
}

TEST_CASE("cuDNN: tensors that are misaligned or the host's, a workspace that is missing") {
  api::RankDevice device{api::Device{0}};
  auto& library = device.library<api::CuDnnLibrary>();
  api::ConvolutionTask const t = task();
  auto const found = api::detail::find_engines(library, t, std::int64_t{1} << 30, 1);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].workspace_bytes > 0);
  api::Buffer const memory{device, 1 << 16};
  float* const x = memory.as<float>();
  float* const weight = x + 1024;
  float* const y = x + 2048;
  std::byte* const workspace = memory.data() + (1 << 15);
  auto const run = [&](float const* at, std::byte* work) {
    api::detail::execute(library, found[0], device.compute, {at, weight, y}, work);
  };
  CHECK_NOTHROW(run(x, workspace));
  CHECK_THROWS_WITH_AS(run(x + 1, workspace), doctest::Contains("misaligned"), CuDnnError);
  alignas(16) static float host[200] = {};
  CHECK_THROWS_WITH_AS(run(host, workspace), doctest::Contains("not on the device"), CuDnnError);
  CHECK_THROWS_WITH_AS(run(x, nullptr), doctest::Contains("workspace"), CuDnnError);
  device.compute.synchronize();
}

TEST_CASE("cuDNN: graphs of operations whose tensors do not fit, are missing or misaligned") {
  using api::detail::OperationGraph;
  constexpr std::int64_t x_id = 1;
  constexpr std::int64_t y_id = 2;
  constexpr auto type = CUDNN_DATA_FLOAT;
  OperationGraph wrong;
  auto const a = wrong.memory(x_id, type, {1, 2, 3, 4});
  auto const b = wrong.memory(y_id, type, {1, 2, 3, 5});
  CHECK_THROWS_WITH_AS(wrong.product(a, a, b, {}), doctest::Contains("do not fit"), CuDnnError);
  CHECK_THROWS_WITH_AS(wrong.transpose(a, b), doctest::Contains("do not fit"), CuDnnError);
  CHECK_THROWS_WITH_AS(wrong.reduce(CUDNN_REDUCE_TENSOR_ADD, b, a), doctest::Contains("do not fit"),
                       CuDnnError);
  CHECK_THROWS_WITH_AS(wrong.pointwise(CUDNN_POINTWISE_EXP, a, nullptr, b),
                       doctest::Contains("do not fit"), CuDnnError);

  api::RankDevice device{api::Device{0}};
  auto& library = device.library<api::CuDnnLibrary>();
  OperationGraph sums;
  auto const x = sums.memory(x_id, type, {1, 4, 2, 2});
  auto const y = sums.memory(y_id, type, {1, 2, 2, 1});
  sums.reduce(CUDNN_REDUCE_TENSOR_ADD, x, y);
  auto const found = api::detail::find_engines(library, sums.finish(library), true, 1 << 20, 1);
  REQUIRE(found.size() == 1);
  api::Buffer const memory{device, 4096};
  float* const at = memory.as<float>();
  device.compute.synchronize();  // a buffer begins with zeros
  for (int i = 0; i < 16; ++i) {
    at[i] = static_cast<float>(i);  // the emulator's devices let the host write
  }
  auto const run = [&](std::vector<std::int64_t> const& ids, std::vector<void*> const& pointers) {
    api::detail::execute(library, found[0], device.compute, ids, pointers, memory.data() + 2048);
  };
  CHECK_THROWS_WITH_AS(run({x_id}, {at}), doctest::Contains("missing"), CuDnnError);
  CHECK_THROWS_WITH_AS(run({x_id, y_id}, {at, at + 17}), doctest::Contains("misaligned"),
                       CuDnnError);
  run({x_id, y_id}, {at, at + 16});
  device.compute.synchronize();
  CHECK(at[16] == 10.0F);
  CHECK(at[17] == 18.0F);
  CHECK(at[18] == 42.0F);
  CHECK(at[19] == 50.0F);
}

}  // namespace
