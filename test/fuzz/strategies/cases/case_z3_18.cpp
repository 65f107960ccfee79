// SPDX-License-Identifier: Apache-2.0
// array 23 of the parameters has other bits, off by 1.8419733765483128e-17
//
//   g++ -std=c++20 -O0 -Iinclude -Itest -Itest/support
//     test/fuzz/strategies/cases/case_z3_18.cpp -o case_z3_18 -pthread
#include <fuzz/strategies/pairs.hpp>

namespace tandem::fuzz::case_z3_18 {

inline constexpr int words = 3;
struct Words : Embedding<words, 2> {};
struct Tag0;
struct Tag1;
struct Net
    : Network<
          Tokens<6, words>,
          Sequential<
              Words, Tanh, Sequential<Dropout<Percent<25>>, Let<Tag0>>,
              Residual<Sequential<Gru<2>>>,
              Sequential<
                  Residual<Sequential<LayerNorm<NoBias>, Linear<8, NoBias>, SwiGlu, Linear<2>>>,
                  Sequential<Concat<Sequential<>, Use<Tag0>>, Linear<2, NoBias>>>,
              Sequential<Sequential<Residual<Sequential<LayerNorm<NoBias>, Linear<8, NoBias>,
                                                        SwiGlu, Linear<2>>>,
                                    Sequential<Concat<Sequential<>, Use<Tag0>>, Linear<2, NoBias>>>,
                         Let<Tag1>>,
              Sequential<Sequential<Residual<Sequential<LayerNorm<NoBias>, Linear<8, NoBias>,
                                                        SwiGlu, Linear<2>>>,
                                    Sequential<Concat<Sequential<>, Use<Tag0>>, Linear<2, NoBias>>>,
                         Sequential<Concat<Sequential<>, Use<Tag1>>, Linear<2, NoBias>>>,
              Vocabulary<words, Shares<Words>, Chunked<3>>>> {
  static constexpr bool generates = true;
};
using Backend = BasicCuda<Portable, Fp64>;
static_assert(graph<Net>.output().out == timed_shape(6, 3));

inline int run(int argc, char** argv) {
  std::vector<Entry<Backend::Master>> const entries{
      entry<Net, Pipeline<OneFOneB, 2, Split<2>, Split<2>, Split<2>, Split<2>, Reproducible<>>,
            Backend>(
          "Pipeline<OneFOneB, 2, Split<2>, Split<2>, Split<2>, Split<2>, Reproducible<>>"),
      entry<Net, SingleDevice<Reproducible<>>, Backend>("SingleDevice<Reproducible<>>"),
  };
  std::vector<Pair> const pairs{
      {.one = 1,
       .many = 0,
       .microbatches = 1,
       .rows = "0F0,0B0\n1F0,1B0\n2F0,2B0\n3F0,3B0\n",
       .agree = Agree::bits,
       .sizes = {2, 8, 1},
       .times = {6, 6, 5},
       .evaluated = 1,
       .settings = 5,
       .options = {.optimizer =
                       own_optimizer<Backend>(Lamb{.learning_rate = 0.01F, .epsilon = 1e-2F}),
                   .groups = {{.pattern = "*", .weight_decay = 0.0F, .below_axes = 2}},
                   .seed = 198854,
                   .threads_per_device = 2},
       .tardy = 609129},
  };
  return run_pairs<Backend::Master>(
      entries, Task{.input = Net::input::shape, .classes = 3, .words = words}, pairs, argc, argv);
}

}  // namespace tandem::fuzz::case_z3_18

#if !defined(TANDEM_FUZZ_CASES)
int main(int argc, char** argv) {
  tandem::fuzz::join_processes();
  return tandem::fuzz::case_z3_18::run(argc, argv);
}
#endif
