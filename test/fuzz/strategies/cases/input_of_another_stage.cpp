// SPDX-License-Identifier: Apache-2.0
// Of two stages of a device one pointed the other to its own input: the gradient's norm was off.
//
//   g++ -std=c++20 -O0 -Iinclude -Itest -Itest/support
//     test/fuzz/strategies/cases/input_of_another_stage.cpp -o input_of_another_stage -pthread
#include <fuzz/strategies/pairs.hpp>

namespace tandem::fuzz::input_of_another_stage {

inline constexpr int words = 9;
struct Words : Embedding<words, 4> {};
inline constexpr int others = 4;
struct Others : Embedding<others, 3> {};
struct Net
    : Network<Inputs<Tokens<6, words>, Tokens<7, others>>,
              Sequential<Input<1>, Others, MeanOverTime,
                         Concat<Sequential<>, Sequential<Input<0>, Words, LastRow>>, Linear<4>>> {};
using Backend = BasicHost<Portable, Fp64>;
static_assert(graph<Net>.output().out == vector_shape(4));

inline int run(int argc, char** argv) {
  std::vector<Entry<Backend::Master>> const entries{
      entry<Net, Pipeline<Chimera, 2, Split<3>, Split<2>>, Backend>(
          "Pipeline<Chimera, 2, Split<3>, Split<2>>"),
      entry<Net, SingleDevice<>, Backend>("SingleDevice<>"),
  };
  std::vector<Pair> const pairs{
      {.one = 1,
       .many = 0,
       .microbatches = 2,
       .agree = Agree::bound,
       .sizes = {9, 7},
       .times = {6, 6},
       .padded = true,
       .evaluated = 1,
       .options = {.optimizer = Sgd{.learning_rate = 0.05F},
                   .clip_norm = 0.5,
                   .seed = 482487,
                   .threads_per_device = 1}},
  };
  return run_pairs<Backend::Master>(entries,
                                    Task{.input = Net::input::shape,
                                         .classes = 4,
                                         .same_kernels = true,
                                         .words = words,
                                         .labelled = true,
                                         .second = Net::input::second::shape,
                                         .others = others},
                                    pairs, argc, argv);
}

}  // namespace tandem::fuzz::input_of_another_stage

#if !defined(TANDEM_FUZZ_CASES)
int main(int argc, char** argv) { return tandem::fuzz::input_of_another_stage::run(argc, argv); }
#endif
