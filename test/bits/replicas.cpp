// SPDX-License-Identifier: Apache-2.0
// Replicas, shared layers and tiles.

#include "images.hpp"

namespace tandem::bits {
namespace {

void pairs(std::string const& folder) {
  pair<Fp32Host, SingleDevice<>, DataParallel<3>>(folder, "single");
  pair<Fp64Host, SingleDevice<>>(folder, "single_fp64", {.optimizer = Adam{}, .threads = 2});
  pair<Fp32Host, SingleDevice<Microbatches<3>, Weighted<4, 4, 3>>>(
      folder, "weighted_microbatches", {.optimizer = AdamW{}, .loader_threads = 3});
  pair<Fp32Host, DataParallel<3>, SingleDevice<>>(folder, "data", {.clip_norm = 0.5});
  pair<Fp32Host, DataParallel<2, Microbatches<2>, Reproducible<>, BucketBytes<64, 256>>>(
      folder, "reproducible", {.loader_threads = 2, .average = {.decay = 0.9}});
  pair<Fp64Host, DataParallel<2, ShardedState>, DataParallel<3>>(
      folder, "sharded_state", {.optimizer = AdamW{}, .clip_norm = 1.0, .average = {.decay = 0.9}});
  pair<Fp32Host, DataParallel<3, ShardedGradients>>(folder, "sharded_gradients",
                                                    {.optimizer = Adam{}});
  pair<Fp32Host, DataParallel<2, ShardedParameters>, DataParallel<3>>(
      folder, "sharded_parameters", {.optimizer = AdamW{}, .clip_norm = 1.0});
  pair<Fp32Host, ChannelParallel<2>, SingleDevice<>, Wide>(folder, "channels");
  pair<Fp32Host, SpatialParallel<2, 2, Microbatches<2>>, SingleDevice<>, Wide>(folder, "tiles");
  pair<Fp32Host,
       Hybrid<DataParallel<2>, Pipeline<GPipe, 2, Split<3>, Split<3>>, SpatialParallel<2, 1>>,
       SingleDevice<>, Wide>(folder, "tiles_in_stages", {.clip_norm = 0.5});
}

}  // namespace
}  // namespace tandem::bits

int main(int argc, char** argv) { return tandem::bits::main_of(argc, argv, tandem::bits::pairs); }
