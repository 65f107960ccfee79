// SPDX-License-Identifier: Apache-2.0
// Of every package: its headers are found, are of the version that it says, and link.
#include <cstdio>

#include <tandem/core/config.hpp>
#include <tandem/core/shape.hpp>

int main() {
  auto const shape = tandem::image_shape(3, 32, 32);
  std::printf("tandem %d.%d.%d: %s\n", TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR,
              TANDEM_VERSION_PATCH, to_string(shape).c_str());
  return shape.elements() == 3072 ? 0 : 1;
}
