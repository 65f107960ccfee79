// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

// What device_memory() says of a language model whose kernels are oneDNN's.

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <onednn_op.hpp>
#include <unit/strategy/fits_sequences.hpp>

namespace onednn_fits_sequences_test {

using namespace tandem;
using test::check_device_memory;
using test::DroppedGpt;

TEST_CASE("where no layer works in place") {
  check_device_memory<DroppedGpt, SingleDevice<>, OneDnn>(4);
  check_device_memory<DroppedGpt, Pipeline<ZeroBubbleH1, 4, Split<4>, Split<3>>, OneDnn>(16);
  check_device_memory<DroppedGpt, Pipeline<GPipe, 4, Split<4>, Split<3>, Checkpoint<Every<1>>>,
                      OneDnn>(16);
}

TEST_CASE("rounded weights") {
  if (test::computes<BFloat16>()) {
    check_device_memory<DroppedGpt, SingleDevice<>, OneDnn, Bf16>(4);
  }
}

}  // namespace onednn_fits_sequences_test

#endif  // TANDEM_ONEDNN
