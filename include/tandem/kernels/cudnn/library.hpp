// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// CuDnnLibrary: a handle of cuDNN 9, and check() for its statuses.
///
/// Host API only, so any C++20 compiler takes this header; it needs <cudnn.h>.

#include <string>

#include <cudnn.h>

#include <tandem/core/error.hpp>
#include <tandem/core/unique_handle.hpp>
#include <tandem/runtime/cuda/device.hpp>
#include <tandem/runtime/cuda/stream.hpp>

#if CUDNN_MAJOR < 9
#error "tandem wants cuDNN 9; install it, or compile without TANDEM_CUDNN"
#endif

namespace tandem::cuda {

/// cuDNN refused a call, or has no engine for a convolution.
class CuDnnError : public Error {
 public:
  CuDnnError(cudnnStatus_t code, std::string const& what) : Error{what}, code_{code} {}

  [[nodiscard]] cudnnStatus_t code() const noexcept { return code_; }

 private:
  cudnnStatus_t code_;
};

namespace detail {

/// What cuDNN says of its last error on this thread; reading it clears it. Often empty.
inline std::string cudnn_last_words() {
  char text[512] = "";
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

constexpr char const* cudnn_advice(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_NOT_INITIALIZED:
      return "check that the driver is as new as the CUDA Toolkit, that the GPU has free memory "
             "and "
             "that all of cuDNN's libraries are installed";
    case CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH:
      return "the libraries of cuDNN are of different versions; install one version alone";
    default:
      return "use BasicCuda<Portable, ...>, which does without cuDNN, and please report this";
  }
}

}  // namespace detail

/// @throws CuDnnError  @p status is not success; the message has cuDNN's last words and the place
inline void check(cudnnStatus_t status, char const* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (status != CUDNN_STATUS_SUCCESS) {
    std::string const words = detail::cudnn_last_words();
    throw CuDnnError{status, std::string{"cuDNN: "} + cudnnGetErrorString(status) +
                                 (words.empty() ? "" : " (" + words + ")") + ": " +
                                 detail::cudnn_advice(status) + " (" + file + ":" +
                                 std::to_string(line) + ")"};
  }
}

/// The library's state on one device; RankDevice::library<CuDnnLibrary>() makes it.
class CuDnnLibrary {
 public:
  /// @throws CuDnnError  the device has no memory left for it, or libraries are missing
  explicit CuDnnLibrary(Device device) : handle_{make(device)} {}

  /// The handle, set to queue its work on @p stream.
  [[nodiscard]] cudnnHandle_t on(Stream const& stream) {
    if (stream_ != stream.get()) {
      check(cudnnSetStream(handle_.get(), stream.get()));
      stream_ = stream.get();
    }
    return handle_.get();
  }

  [[nodiscard]] cudnnHandle_t get() const noexcept { return handle_.get(); }

 private:
  static cudnnHandle_t make(Device device) {
    ScopedDevice const scope{device};
    cudnnHandle_t handle = nullptr;
    check(cudnnCreate(&handle));
    return handle;
  }

  UniqueHandle<cudnnHandle_t, cudnnDestroy> handle_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace tandem::cuda
