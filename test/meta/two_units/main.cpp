// SPDX-License-Identifier: Apache-2.0
// Two units of one program include all of tandem: it must link, so every function must be inline.
#include <tandem/tandem.hpp>

int elements_seen_by_the_other_unit();

int main() {
  auto const elements = static_cast<int>(tandem::image_shape(2, 3, 4).elements());
  return elements == elements_seen_by_the_other_unit() ? 0 : 1;
}
