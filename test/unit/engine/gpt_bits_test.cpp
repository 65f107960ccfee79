// SPDX-License-Identifier: Apache-2.0
// A GPT and recurrent layers, whose words are shared, in float and reproducible mode: the bits of
// one device.

#include <gpt_bits.hpp>

namespace tandem {
namespace engine_gpt_bits_test {

TEST_CASE("a GPT has the bits of one device, with portable kernels") {
  test::check_gpt_bits<BasicHost<Portable>>();
}

TEST_CASE("so have recurrent layers") { test::check_lstm_bits<BasicHost<Portable>>(); }

}  // namespace engine_gpt_bits_test
}  // namespace tandem
