// SPDX-License-Identifier: Apache-2.0
// A received message overwrote one that was still being sent: the first prediction is off by 0.12.
//
//   g++ -std=c++20 -O0 -Iinclude -Itest -Itest/support
//     test/fuzz/strategies/cases/message_overwritten.cpp -o message_overwritten -pthread
#include <fuzz/strategies/pairs.hpp>

namespace tandem::fuzz::message_overwritten {

struct Net : Network<Vector<1>, Sequential<Linear<1>, Sequential<Flatten>, Linear<5>>> {};
using Backend = BasicHost<Portable, Fp64>;
static_assert(graph<Net>.output().out == vector_shape(5));

inline int run(int argc, char** argv) {
  std::vector<Entry<Backend::Master>> const entries{
      entry<Net, Pipeline<GPipe, 3, Split<1>, Split<1>, Split<1>>, Backend>(
          "Pipeline<GPipe, 3, Split<1>, Split<1>, Split<1>>"),
      entry<Net, SingleDevice<>, Backend>("SingleDevice<>"),
  };
  std::vector<Pair> const pairs{
      {.one = 1,
       .many = 0,
       .microbatches = 5,
       .rows = "0F0,0F1,0F2,0B0,0F3,0B1,0F4,0B2,0B3,0B4\n1F0,1F1,1B0,1F2,1B1,1F3,1B2,1F4,1B3,"
               "1B4\n2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4\n",
       .agree = Agree::bound,
       .sizes = {12, 6},
       .saved = 1,
       .evaluated = 3,
       .settings = 19,
       .options = {.optimizer = Adam{.learning_rate = 0.01F, .epsilon = 1e-2F},
                   .clip_norm = 0.5,
                   .seed = 618175,
                   .threads_per_device = 1},
       .tardy = 359924},
  };
  return run_pairs<Backend::Master>(
      entries, Task{.input = Net::input::shape, .classes = 5, .same_kernels = true}, pairs, argc,
      argv);
}

}  // namespace tandem::fuzz::message_overwritten

#if !defined(TANDEM_FUZZ_CASES)
int main(int argc, char** argv) { return tandem::fuzz::message_overwritten::run(argc, argv); }
#endif
