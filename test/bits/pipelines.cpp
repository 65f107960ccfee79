// SPDX-License-Identifier: Apache-2.0
// Parts of a network on several devices: every schedule whose steps have a barrier.

#include "images.hpp"

namespace tandem::bits {
namespace {

constexpr auto table = place<Net>({{"4.1", 1}, {"4.2", 1}, {"6", 1}});

void pairs(std::string const& folder) {
  using P = Fp32Host;
  pair<P, ModelParallel<Split<4>, Split<5>>, ModelParallel<Auto<3>>>(folder, "model");
  pair<P, ModelParallel<Placed<table>>, SingleDevice<>>(folder, "placed", {.clip_norm = 0.5});
  pair<P, Pipeline<GPipe, 4, Split<4>, Split<5>, Checkpoint<Boundaries>>>(folder, "gpipe");
  pair<P, Pipeline<OneFOneB, 4, Split<3>, Split<3>, Split<3>, Checkpoint<Every<2>>>,
       SingleDevice<Microbatches<4>>>(folder, "one_f_one_b", {.optimizer = Adam{}});
  pair<P, Pipeline<Interleaved<2>, 4, Split<3>, Split<1>, Split<2>, Split<3>>>(folder,
                                                                               "interleaved");
  pair<P, Pipeline<ZeroBubbleH1, 4, Split<4>, Split<5>>>(folder, "zero_bubble_h1");
  pair<P, Pipeline<ZeroBubbleH2, 4, Split<3>, Split<3>, Split<3>>>(folder, "zero_bubble_h2");
  pair<P, Pipeline<PostValidated<ZeroBubbleH2>, 4, Split<4>, Split<5>>>(folder, "post_validated",
                                                                        {.clip_norm = 0.3});
  pair<P, Pipeline<ZeroBubbleV, 4, Split<3>, Split<1>, Split<2>, Split<3>>>(folder,
                                                                            "zero_bubble_v");
  pair<P, Pipeline<VHalf, 4, Split<3>, Split<1>, Split<2>, Split<3>>>(folder, "v_half");
  pair<P, Pipeline<VMin, 4, Split<3>, Split<1>, Split<2>, Split<3>>>(folder, "v_min");
  pair<P, Pipeline<DualPipeV, 4, Split<3>, Split<1>, Split<2>, Split<3>>>(folder, "dual_pipe_v");
  pair<P, Pipeline<DualPipe, 4, Split<4>, Split<5>>>(folder, "dual_pipe");
  pair<P, Pipeline<Chimera, 4, Split<4>, Split<5>, Reproducible<>>,
       SingleDevice<Microbatches<4>, Reproducible<>>>(folder, "chimera");
  pair<P, Hybrid<DataParallel<2, ShardedState>, Pipeline<OneFOneB, 2, Split<4>, Split<5>>>>(
      folder, "hybrid", {.optimizer = AdamW{}, .loader_threads = 2});
}

}  // namespace
}  // namespace tandem::bits

int main(int argc, char** argv) { return tandem::bits::main_of(argc, argv, tandem::bits::pairs); }
