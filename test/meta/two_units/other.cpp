// SPDX-License-Identifier: Apache-2.0
#include <tandem/tandem.hpp>

int elements_seen_by_the_other_unit() {
  return static_cast<int>(tandem::image_shape(2, 3, 4).elements());
}
