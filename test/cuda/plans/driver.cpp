// SPDX-License-Identifier: Apache-2.0

/// @file
/// A library in the place of NVIDIA's driver, libcuda.so.1, for programs that make plans of cuDNN
/// and never run them: cuDNN compiles kernels only where it finds a driver to load them. This one
/// takes every kernel and has no device.

extern "C" {

namespace {

constexpr int success = 0;
constexpr int no_device = 100;

char some_library;
char some_kernel;

}  // namespace

#define TANDEM_WITHOUT_DEVICE(name) \
  int name() { return no_device; }

TANDEM_WITHOUT_DEVICE(cuCtxGetCurrent)
TANDEM_WITHOUT_DEVICE(cuCtxGetLimit)
TANDEM_WITHOUT_DEVICE(cuCtxPopCurrent)
TANDEM_WITHOUT_DEVICE(cuCtxPushCurrent)
TANDEM_WITHOUT_DEVICE(cuDeviceGet)
TANDEM_WITHOUT_DEVICE(cuDeviceGetCount)
TANDEM_WITHOUT_DEVICE(cuLaunchCooperativeKernel)
TANDEM_WITHOUT_DEVICE(cuLaunchKernel)
TANDEM_WITHOUT_DEVICE(cuLaunchKernelEx)
TANDEM_WITHOUT_DEVICE(cuLibraryLoadFromFile)
TANDEM_WITHOUT_DEVICE(cuLinkAddData)
TANDEM_WITHOUT_DEVICE(cuLinkComplete)
TANDEM_WITHOUT_DEVICE(cuLinkCreate)
TANDEM_WITHOUT_DEVICE(cuLinkDestroy)
TANDEM_WITHOUT_DEVICE(cuOccupancyMaxPotentialClusterSize)
TANDEM_WITHOUT_DEVICE(cuStreamGetCtx)

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuGetErrorName(int /*error*/, char const** name) {
  *name = "CUDA_ERROR_NO_DEVICE";
  return success;
}
int cuGetErrorString(int /*error*/, char const** text) {
  *text = "there is no device";
  return success;
}
int cuKernelGetAttribute(int* value) {
  *value = 0;
  return success;
}
int cuKernelSetAttribute() { return success; }
int cuLibraryGetKernel(void** kernel) {
  *kernel = &some_kernel;
  return success;
}
int cuLibraryLoadData(void** library) {
  *library = &some_library;
  return success;
}
int cuLibraryUnload() { return success; }

}  // extern "C"
