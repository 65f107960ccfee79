// SPDX-License-Identifier: Apache-2.0
// Two units that nvcc compiles and one that it does not, with the same kernels and inline functions
// in them: they link, and agree on what the default backend is.
#include <type_traits>

#include <tandem/tandem.hpp>

#include "units.hpp"

int main() {
  bool const cudnn = std::is_same_v<tandem::Cuda, tandem::BasicCuda<tandem::CuDnn, tandem::Tf32>>;
  bool const agreed = cudnn == first_unit_prefers_cudnn() && cudnn == second_unit_prefers_cudnn();
  return agreed && fill_of_the_first_unit() == fill_of_the_second_unit() ? 0 : 1;
}
