// SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include <tandem/cuda.cuh>

#include "units.hpp"

Fill fill_of_the_first_unit() { return &tandem::cuda::fill<float>; }

bool first_unit_prefers_cudnn() {
  return std::is_same_v<tandem::Cuda, tandem::BasicCuda<tandem::CuDnn, tandem::Tf32>>;
}
