// SPDX-License-Identifier: Apache-2.0
// device 2 has 8896 bytes of tensors, but fits<> says 7488 at most
//
//   g++ -std=c++20 -O0 -Iinclude -Itest -Itest/support
//     test/fuzz/strategies/cases/case_z4_7.cpp -o case_z4_7 -pthread
#include <fuzz/strategies/pairs.hpp>

namespace tandem::fuzz::case_z4_7 {

struct Net
    : Network<
          Image<4, 2, 3>,
          Sequential<Conv2d<1, Kernel<3>, Padding<1, 2>, NoBias>, BatchNorm2d<>,
                     Multiply<Sequential<ReLU, Conv2d<1, Kernel<1, 3>, Padding<0, 1>, NoBias>,
                                         BatchNorm2d<>, ReLU>,
                              Sequential<Conv2d<1, Kernel<3>, Padding<1>>, BatchNorm2d<>, ReLU>>,
                     GlobalAvgPool, Linear<3>>> {
  using loss = SoftCrossEntropy<Percent<20>>;
  using metric = Metrics<Accuracy, TopK<2>>;
};
using Backend = BasicCuda<Portable, Fp64>;
static_assert(graph<Net>.output().out == vector_shape(3));

inline int run(int argc, char** argv) {
  std::vector<Entry<Backend::Master>> const entries{
      entry<Net,
            Hybrid<DataParallel<2, ShardedParameters>, DataParallel<2>,
                   ModelParallel<Split<1>, Split<1>, Split<1>, Split<2>, BucketBytes<64, 32>,
                                 Checkpoint<Every<2>>>>,
            Backend>(
          "Hybrid<DataParallel<2, ShardedParameters>, DataParallel<2>, ModelParallel<Split<1>, "
          "Split<1>, Split<1>, Split<2>, BucketBytes<64, 32>, Checkpoint<Every<2>>>>"),
      entry<Net, SingleDevice<>, Backend>("SingleDevice<>"),
  };
  std::vector<Pair> const pairs{
      {.one = 1,
       .many = 0,
       .microbatches = 4,
       .agree = Agree::bound,
       .sizes = {4, 6, 6},
       .evaluated = 3,
       .settings = 0,
       .options = {.optimizer = AdamW{.learning_rate = 0.01F, .epsilon = 1e-2F},
                   .groups = {{.pattern = "*.weight", .gradient_scale = 0.5F}},
                   .average = {.decay = 0.9, .pattern = "*.weight"},
                   .seed = 5878,
                   .threads_per_device = 2},
       .tardy = 761140},
  };
  return run_pairs<Backend::Master>(entries, Task{.input = Net::input::shape, .classes = 3}, pairs,
                                    argc, argv);
}

}  // namespace tandem::fuzz::case_z4_7

#if !defined(TANDEM_FUZZ_CASES)
int main(int argc, char** argv) {
  tandem::fuzz::join_processes();
  return tandem::fuzz::case_z4_7::run(argc, argv);
}
#endif
