// SPDX-License-Identifier: Apache-2.0

/// @file
/// cuDNN's backend API as the emulator has it: graphs of one convolution, channels-last, and graphs
/// of the operations that attention is made of.
///
/// The heuristics suggest engines that must not be taken before those that may: one whose sums
/// vary, one that rounds its inputs, one that declines when a plan is made, one that wants too much
/// workspace. The first two give NaN when run. As cuDNN 9.19 does, it has no engine for tensors of
/// different types.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <cudnn.h>

#include "cudnn_convolution.hpp"
#include "cudnn_descriptor.hpp"
#include "cudnn_engines.hpp"
#include "cudnn_graph.hpp"
#include "cudnn_graph_run.hpp"
#include "stream_work.hpp"

struct cudnnContext {
  int device;
  cudaStream_t stream;
};

namespace {

using namespace cuda_emulator;

std::shared_ptr<Descriptor>& at(cudnnBackendDescriptor_t raw) {
  return *static_cast<std::shared_ptr<Descriptor>*>(raw);
}

/// The pointer of a tensor, or null if it is missing, misaligned or not in the device's memory.
void* pointer_of(Descriptor const& pack, Descriptor const& tensor, int device) {
  auto const id = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  auto const ids = pack.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != id) {
      continue;
    }
    void* const pointer = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    auto const alignment = tensor.value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    auto const bytes = static_cast<std::size_t>(elements(tensor) * element_bytes(tensor));
    bool const sound = reinterpret_cast<std::intptr_t>(pointer) % alignment == 0 &&
                       device_can_access(pointer, bytes, device);
    return sound ? pointer : nullptr;
  }
  return nullptr;
}

/// The address that the pack has for a tensor; null if it has none.
void* address_of(Descriptor const& pack, std::int64_t id) {
  auto const ids = pack.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == id) {
      return pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    }
  }
  return nullptr;
}

cudnnStatus_t execute_graph(cudnnHandle_t handle, Descriptor const& plan, Descriptor const& pack,
                            int device) {
  auto job = std::make_shared<GraphJob>();
  job->operations = operations_of(plan);
  for (Shared const& tensor : memory_of(job->operations)) {
    auto const id = tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    void* const address = address_of(pack, id);
    if (address == nullptr) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor of the graph is missing");
    }
    if (is(*tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE)) {
      job->numbers[id] = load(address, 0, type_of(*tensor));
      continue;
    }
    auto const alignment = tensor->value<std::int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (reinterpret_cast<std::intptr_t>(address) % alignment != 0 ||
        !device_can_access(address, span_bytes(*tensor), device)) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor misaligned or not on the device");
    }
    job->pointers[id] = address;
  }
  void* const workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  auto const bytes =
      static_cast<std::size_t>(plan.value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  if (!device_can_access(workspace, bytes, device)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a workspace that is not on the device");
  }
  cudaError_t const queued = enqueue_computation(handle->stream, "cudnnBackendExecute",
                                                 [=] {
                                                   run(*job);
                                                   poison(workspace, bytes);
                                                 },
                                                 -1, {{workspace, bytes, true}});
  return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS
                               : refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream refused");
}

cudnnStatus_t execute(cudnnHandle_t handle, Descriptor const& plan, Descriptor const& pack) {
  int const device = device_of(handle->stream);
  if (device != handle->device || device != current_device()) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream's device is not current");
  }
  Descriptor const& operation = operation_of(plan);
  Operation names{};
  if (!find_operation(operation.type, names)) {
    return execute_graph(handle, plan, pack, device);
  }
  ConvolutionJob job = job_of(operation, names);
  auto const id = engine_of(plan).value<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  job.tf32 = id == tensor_core && !job.half;
  job.x = pointer_of(pack, operation.descriptor(names.x), device);
  job.weight = pointer_of(pack, operation.descriptor(names.weight), device);
  job.y = pointer_of(pack, operation.descriptor(names.y), device);
  job.workspace = pack.value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  job.workspace_bytes = plan.value<std::int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  auto const workspace_bytes = static_cast<std::size_t>(job.workspace_bytes);
  if (job.x == nullptr || job.weight == nullptr || job.y == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a tensor missing, misaligned or not on the device");
  }
  if (!device_can_access(job.workspace, workspace_bytes, device)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a workspace that is not on the device");
  }
  Descriptor const& result =
      operation.descriptor(names.kind == ConvolutionKind::forward         ? names.y
                           : names.kind == ConvolutionKind::backward_data ? names.x
                                                                          : names.weight);
  void* const to = pointer_of(pack, result, device);
  auto const bytes = static_cast<std::size_t>(elements(result) * element_bytes(result));
  auto const operand = [&](int name, void const* pointer) {
    Descriptor const& tensor = operation.descriptor(static_cast<decltype(names.x)>(name));
    return Access{pointer, static_cast<std::size_t>(elements(tensor) * element_bytes(tensor)),
                  pointer == to};
  };
  std::vector<Access> const accesses{operand(names.x, job.x),
                                     operand(names.weight, job.weight),
                                     operand(names.y, job.y),
                                     {job.workspace, workspace_bytes, true}};
  std::int64_t operands = 0;
  for (auto const name : {names.x, names.weight, names.y}) {
    operands += elements(operation.descriptor(name)) * element_bytes(operation.descriptor(name));
  }
  cudaError_t const queued = enqueue_computation(
      handle->stream, "cudnnBackendExecute",
      [=] {
        run(job);
        if (id == varying || id == rounding) {
          poison(to, bytes);
        }
        if (workspace_bytes > 0) {
          poison(job.workspace, workspace_bytes);
        }
      },
      operands, accesses);
  return queued == cudaSuccess ? CUDNN_STATUS_SUCCESS
                               : refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream refused");
}

}  // namespace

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext{current_device(), nullptr};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (device_of(stream) != handle->device) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a stream of another device");
  }
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

char const* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_BAD_PARAM";
  }
}
void cudnnGetLastErrorString(char* message, size_t size) {
  std::strncpy(message, last_error.c_str(), size - 1);
  message[size - 1] = '\0';
  last_error.clear();
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor =
      new std::shared_ptr<Descriptor>{std::make_shared<Descriptor>(Descriptor{type, false})};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<std::shared_ptr<Descriptor>*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       void const* values) {
  Descriptor& d = *at(descriptor);
  if (d.finalized) {
    return refuse(CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is final");
  }
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    std::vector<Shared> list;
    for (int64_t i = 0; i < count; ++i) {
      auto const& value = at(static_cast<cudnnBackendDescriptor_t const*>(values)[i]);
      if (!value->finalized) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute that is not final");
      }
      list.push_back(value);
    }
    d.put(name, list);
    return CUDNN_STATUS_SUCCESS;
  }
  std::size_t const bytes = value_bytes(type);
  if (bytes == 0 || count < 1 || values == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "an attribute that is not emulated");
  }
  auto const* const begin = static_cast<char const*>(values);
  d.attributes[name] = {type, count,
                        std::vector<char>(begin, begin + static_cast<std::size_t>(count) * bytes)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Descriptor& d = *at(descriptor);
  if (d.finalized) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the descriptor is final already");
  }
  cudnnStatus_t const status = finish(d);
  d.finalized = status == CUDNN_STATUS_SUCCESS;
  return status;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t* count, void* values) {
  Descriptor const& d = *at(descriptor);
  if (!d.finalized || !d.has(name) || d.attributes.at(name).type != type) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "no such attribute, or the descriptor is not final");
  }
  Attribute const& a = d.attributes.at(name);
  *count = a.count;
  for (int64_t i = 0; i < wanted && i < a.count; ++i) {
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
      auto& to = at(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
      auto const& from = a.descriptors[static_cast<std::size_t>(i)];
      if (to->type != from->type) {
        return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor of another type");
      }
      to = std::const_pointer_cast<Descriptor>(from);
    } else {
      std::size_t const bytes = value_bytes(type);
      std::memcpy(static_cast<char*>(values) + static_cast<std::size_t>(i) * bytes,
                  a.bytes.data() + static_cast<std::size_t>(i) * bytes, bytes);
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  if (!at(plan)->finalized || !at(pack)->finalized) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor that is not final");
  }
  return execute(handle, *at(plan), *at(pack));
}

}  // extern "C"
