// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

// A GPT and recurrent layers, whose words are shared, in float and reproducible mode: the bits of
// one device.

#include <gpt_bits.hpp>

namespace tandem {
namespace onednn_gpt_bits_test {

TEST_CASE("a GPT has the bits of one device, with oneDNN") {
  test::check_gpt_bits<BasicHost<OneDnn>>();
}

TEST_CASE("so have recurrent layers") { test::check_lstm_bits<BasicHost<OneDnn>>(); }

}  // namespace onednn_gpt_bits_test
}  // namespace tandem

#endif  // TANDEM_ONEDNN
