// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <tandem/tandem.hpp>

static_assert(TANDEM_VERSION == PACKAGE_VERSION);

int main() {
  auto const shape = tandem::image_shape(3, 32, 32);
  std::printf("tandem %d.%d.%d: %s\n", TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR,
              TANDEM_VERSION_PATCH, to_string(shape).c_str());
  return shape.elements() == 3072 ? 0 : 1;
}
