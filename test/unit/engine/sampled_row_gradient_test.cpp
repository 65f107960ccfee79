// SPDX-License-Identifier: Apache-2.0
// A sampled softmax whose gradients are rows has the bits of one whose gradients are dense,
// whatever the strategy.

#include <row_network.hpp>

namespace tandem {
namespace sampled_row_gradient_test {

using test::row_time;
using test::row_words;
using Portables = BasicHost<Portable>;
using R = Reproducible<4>;

/// @tparam Options  of the words and of the softmax: RowGradient, or none
template <class... Options>
struct Net : Network<Tokens<row_time, row_words>,
                     Sequential<Embedding<row_words, 20, Options...>, Linear<20>, GeluTanh,
                                Linear<16>, Vocabulary<row_words, Sampled<24>, Options...>>> {};

/// The same without biases, a few rows of the softmax at a time.
template <class... Options>
struct Chunks
    : Network<Tokens<row_time, row_words>,
              Sequential<
                  Embedding<row_words, 20>, Linear<16>,
                  Vocabulary<row_words, Sampled<24>, NoBias, Chunked<7>, PerSample, Options...>>> {
};

template <template <class...> class Of, class One, class... Many>
void check() {
  for (TrainerOptions const& options : test::row_options<Portables>()) {
    INFO(optimizer_name(options.optimizer));
    test::TrainedRows<Of<>, One, Portables> const dense{options};
    (test::check_same_rows(test::TrainedRows<Of<RowGradient>, Many, Portables>{options}, dense),
     ...);
  }
}

TEST_CASE("a sampled softmax by rows: the bits of a dense gradient, in a strategy's own order") {
  using Two = DataParallel<2, Microbatches<2>>;
  using Four = DataParallel<4, Weighted<2, 0, 1, 3>>;
  check<Net, Two, Two>();
  check<Net, Four, Four>();
  check<Chunks, Two, Two>();
}

TEST_CASE("a sampled softmax by rows: reproducible, the bits of one device with a dense gradient") {
  check<Net, SingleDevice<Microbatches<4>, R>, SingleDevice<Microbatches<4>, R>, DataParallel<4, R>,
        Pipeline<OneFOneB, 4, Split<2>, Split<3>, R>,
        Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>>();
}

TEST_CASE("a sampled softmax by rows: memory is what is said, and no gradient of all words") {
  using S = DataParallel<2, Microbatches<2>>;
  Trainer<Net<RowGradient>, S, Portables> const trainer{
      {.batch = 8, .optimizer = Sgd{.learning_rate = 0.1F}, .threads_per_device = 1}};
  constexpr auto memory = device_memory<Net<RowGradient>, S, Sgd, Fp32>(8, 0);
  CHECK(trainer.memory(0).gradients == memory.gradients);
  auto const parameters = trainer.parameters();
  for (std::size_t const i : {0U, 5U, 6U}) {  // the words, the softmax, its biases
    CHECK(parameters[i].gradient.empty());
  }
  CHECK(!parameters[1].gradient.empty());
}

}  // namespace sampled_row_gradient_test
}  // namespace tandem
