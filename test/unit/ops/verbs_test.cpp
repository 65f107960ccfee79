// SPDX-License-Identifier: Apache-2.0
#include <tandem/ops/verbs.hpp>

#include <cstddef>

#include <doctest/doctest.h>

namespace tandem {
namespace verbs_test {

TEST_CASE("a device may carry nothing, which has no memory") {  // for the sanitizers
  host::Device device{1};
  std::byte* const nowhere = nullptr;
  Verbs<BasicHost<Portable>>::to_host(device, nowhere, nowhere, 0);
  Verbs<BasicHost<Portable>>::from_host(device, nowhere, nowhere, 0);
  CHECK(device.team.size() == 1);
}

}  // namespace verbs_test
}  // namespace tandem
