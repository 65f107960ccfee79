// SPDX-License-Identifier: Apache-2.0
// What oneDNN computes in bf16, for which it wants AVX-512.

#include "images.hpp"

namespace tandem::bits {
namespace {

void pairs(std::string const& folder) {
  using Dnn = BasicHost<OneDnn, Bf16>;
  pair<Dnn, DataParallel<2, ShardedState>>(folder, "onednn_bf16", {.optimizer = Adam{}});
  pair<Dnn, ModelParallel<Auto<2>>>(folder, "onednn_bf16_model");
}

}  // namespace
}  // namespace tandem::bits

int main(int argc, char** argv) { return tandem::bits::main_of(argc, argv, tandem::bits::pairs); }
