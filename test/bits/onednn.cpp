// SPDX-License-Identifier: Apache-2.0
// What oneDNN computes in fp32.

#include "images.hpp"

namespace tandem::bits {
namespace {

void pairs(std::string const& folder) {
  using Dnn = BasicHost<OneDnn>;
  pair<Dnn, SingleDevice<>, DataParallel<2>>(folder, "onednn", {.threads = 2});
  pair<Dnn, Hybrid<DataParallel<2>, Pipeline<OneFOneB, 2, Split<4>, Split<5>>>>(
      folder, "onednn_hybrid", {.clip_norm = 0.5, .loader_threads = 2});
}

}  // namespace
}  // namespace tandem::bits

int main(int argc, char** argv) { return tandem::bits::main_of(argc, argv, tandem::bits::pairs); }
