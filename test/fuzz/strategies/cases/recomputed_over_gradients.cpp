// SPDX-License-Identifier: Apache-2.0
// Values that a checkpointed run computes again stood where the gradient was: parameters were off.
//
//   g++ -std=c++20 -O0 -Iinclude -Itest -Itest/support
//     test/fuzz/strategies/cases/recomputed_over_gradients.cpp -o recomputed_over_gradients
//     -pthread
#include <fuzz/strategies/pairs.hpp>

namespace tandem::fuzz::recomputed_over_gradients {

struct Net : Network<Image<1, 2, 2>,
                     Sequential<Conv2d<1>, Conv2d<1>, AvgPool2d<Kernel<2>>, Flatten, Linear<2>>> {};
using Backend = BasicHost<Portable, Fp64>;
static_assert(graph<Net>.output().out == vector_shape(2));

inline int run(int argc, char** argv) {
  std::vector<Entry<Backend::Master>> const entries{
      entry<Net, ModelParallel<Split<1>, Split<2>, Split<2>, Checkpoint<Every<2>>>, Backend>(
          "ModelParallel<Split<1>, Split<2>, Split<2>, Checkpoint<Every<2>>>"),
      entry<Net, SingleDevice<>, Backend>("SingleDevice<>"),
  };
  std::vector<Pair> const pairs{
      {.one = 1,
       .many = 0,
       .microbatches = 1,
       .agree = Agree::bound,
       .sizes = {2},
       .evaluated = 1,
       .options = {.optimizer = Sgd{.learning_rate = 0.05F}, .seed = 1, .threads_per_device = 1}},
  };
  return run_pairs<Backend::Master>(
      entries, Task{.input = Net::input::shape, .classes = 2, .same_kernels = true}, pairs, argc,
      argv);
}

}  // namespace tandem::fuzz::recomputed_over_gradients

#if !defined(TANDEM_FUZZ_CASES)
int main(int argc, char** argv) { return tandem::fuzz::recomputed_over_gradients::run(argc, argv); }
#endif
