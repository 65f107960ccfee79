// SPDX-License-Identifier: Apache-2.0
// Gradients of rows, of words and of a sampled softmax, have the bits of dense ones, whatever the
// strategy.

#include <row_network.hpp>
#include <support/temporary_folder.hpp>

namespace tandem {
namespace row_gradient_test {

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

using Two = DataParallel<2, Microbatches<2>>;
using Four = DataParallel<4, Weighted<2, 0, 1, 3>>;

TEST_CASE("gradients of rows: the bits of dense ones, in the order of a strategy's own") {
  check<test::RowNet, Two, Two>();
  check<Net, Four, Four>();
  check<Chunks, Two, Two>();
}

TEST_CASE("gradients of rows: reproducible, the bits of one device with a dense one") {
  check<Net, SingleDevice<Microbatches<4>, R>, SingleDevice<Microbatches<4>, R>, DataParallel<4, R>,
        Pipeline<OneFOneB, 4, Split<2>, Split<3>, R>,
        Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>>();
}

TEST_CASE("gradients of rows: checkpoints are those of dense ones") {
  test::TemporaryFolder const folder;
  TrainerOptions const options = test::row_options<Portables>()[1];
  test::TrainedRows<test::RowNet<RowGradient>, Two, Portables> rows{options};
  rows.trainer.save(folder.file("rows"));
  Trainer<test::RowNet<>, Two, Portables> dense{options};
  dense.load(folder.file("rows"));
  Trainer<test::RowNet<RowGradient>, Two, Portables> again{options};
  dense.save(folder.file("dense"));
  again.load(folder.file("dense"));
  std::vector<std::int32_t> const x(72, 7);
  StepResult const a = rows.trainer.step(x, x);
  CHECK(a.loss == dense.step(x, x).loss);
  CHECK(a.loss == again.step(x, x).loss);
  CHECK(test::first_difference(rows.trainer.parameters(), dense.parameters()) == "");
  CHECK(test::first_difference(again.parameters(), dense.parameters()) == "");
}

TEST_CASE("a sampled softmax by rows: memory is what is said, and no gradient of all words") {
  Trainer<Net<RowGradient>, Four, Portables> const trainer{
      {.batch = 8, .optimizer = Sgd{.learning_rate = 0.1F}, .threads_per_device = 1}};
  constexpr auto memory = device_memory<Net<RowGradient>, Four, Sgd, Fp32>(8, 0);
  CHECK(trainer.memory(0).gradients == memory.gradients);
  auto const parameters = trainer.parameters();
  for (std::size_t const i : {0U, 5U, 6U}) {  // the words, the softmax, its biases
    CHECK(parameters[i].gradient.empty());
  }
  CHECK(!parameters[1].gradient.empty());
}

}  // namespace row_gradient_test
}  // namespace tandem
