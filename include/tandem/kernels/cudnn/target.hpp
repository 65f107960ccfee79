// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CuDnnTarget: the device for which cuDNN is asked for engines: a handle's, or a described one.

#include <span>
#include <string>

#include <cudnn.h>

#include <tandem/kernels/cudnn/descriptor.hpp>
#include <tandem/kernels/cudnn/library.hpp>

namespace tandem::cuda::detail {

/// The engines' handle; cuDNN before 9.14 wants it, later ones take it and call it deprecated.
inline constexpr auto cudnn_graph_handle = static_cast<cudnnBackendAttributeName_t>(800);
inline constexpr auto cudnn_plan_handle = static_cast<cudnnBackendAttributeName_t>(400);

/// Of cuDNN 9.8 and newer.
inline constexpr auto cudnn_device_properties = static_cast<cudnnBackendDescriptorType_t>(38);
inline constexpr auto cudnn_device_json = static_cast<cudnnBackendAttributeName_t>(2702);
inline constexpr auto cudnn_heuristic_device = static_cast<cudnnBackendAttributeName_t>(204);
inline constexpr auto cudnn_plan_device = static_cast<cudnnBackendAttributeName_t>(407);

/// A device by the JSON that cuDNN writes of one: plans are made for it where no GPU is, but are
/// not run.
/// @throws CuDnnError  a text that is not cuDNN's, or a cuDNN that is older than 9.8
inline BackendDescriptor describe_device(std::string const& json) {
  BackendDescriptor device{cudnn_device_properties};
  device.set(cudnn_device_json, std::span<char const>{json.c_str(), json.size() + 1});
  device.finalize();
  return device;
}

/// What a graph, a heuristic and a plan are told of their device.
class CuDnnTarget {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a library is a target
  CuDnnTarget(CuDnnLibrary const& library) : handle_{library.get()} {}

  /// @param device  of describe_device(); must outlive the target
  explicit CuDnnTarget(BackendDescriptor const& device) : device_{&device} {}

  void describe_graph(BackendDescriptor& graph) const {
    if (handle_ != nullptr) {
      graph.set(cudnn_graph_handle, handle_);
    }
  }
  void describe_heuristic(BackendDescriptor& heuristic) const {
    if (device_ != nullptr) {
      heuristic.set(cudnn_heuristic_device, *device_);
    }
  }
  void describe_plan(BackendDescriptor& plan) const {
    if (device_ != nullptr) {
      plan.set(cudnn_plan_device, *device_);
    } else {
      plan.set(cudnn_plan_handle, handle_);
    }
  }

 private:
  cudnnHandle_t handle_ = nullptr;
  BackendDescriptor const* device_ = nullptr;
};

}  // namespace tandem::cuda::detail
