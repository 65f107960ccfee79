// SPDX-License-Identifier: Apache-2.0
// What gradients of rows are for: bytes of memory and on the way; and what they refuse.

#include <cstdint>
#include <string>

#include <tandem/strategy/fits.hpp>

#include <logging_transport.hpp>
#include <row_network.hpp>
#include <support/temporary_folder.hpp>

namespace tandem {
namespace row_gradient_volume_test {

using test::RowNet;
using Portables = BasicHost<Portable>;

// Of the words, as BigLSTM has them, and of its first LSTM; the vocabulary is a few words.
template <class... Options>
struct Large
    : Network<Tokens<20, 793'470>,
              Sequential<Embedding<793'470, 1024, Options...>, Linear<1024>, Vocabulary<1000>>> {};

template <class Net, class S>
constexpr DeviceMemory memory_of = device_memory<Net, S, Adagrad, Fp32>(128, 0);

using Two = DataParallel<2>;
constexpr std::int64_t words = std::int64_t{793'470} * 1024 * 4;
constexpr std::int64_t block = gradient_rows_bytes(64 * 20, 1024, 4);
static_assert(memory_of<Large<>, Two>.gradients > words);
static_assert(memory_of<Large<RowGradient>, Two>.gradients ==
              memory_of<Large<>, Two>.gradients - words + 3 * block +
                  gradient_rows_bytes(128 * 20, 1024, 4));
static_assert(block < 5.3e6 && memory_of<Large<RowGradient>, Two>.gradients < 35e6);
// Weights and Adagrad's sums are there; the gradient is not.
static_assert(fits<Large<RowGradient>, Two, Adagrad, Fp32>(128, 2 * words + 200'000'000));
static_assert(!fits<Large<>, Two, Adagrad, Fp32>(128, 3 * words));

template <class S>
void check_memory() {
  TrainerOptions const options{.batch = 12, .optimizer = Sgd{}, .threads_per_device = 1};
  Trainer<RowNet<RowGradient>, S, Portables> const trainer{options};
  for (int rank = 0; rank < S::ranks; ++rank) {
    DeviceMemory const said =
        device_memory<RowNet<RowGradient>, S, Sgd, Fp32>(12, S::mesh.coordinate(rank, Axis::model));
    CHECK(trainer.memory(rank).gradients == said.gradients);
  }
}

TEST_CASE("memory of gradients of rows: what is said of them is allocated") {
  check_memory<SingleDevice<Microbatches<4>, Reproducible<>>>();
  check_memory<
      Hybrid<DataParallel<2, Reproducible<4>>, Pipeline<OneFOneB, 2, Split<2>, Split<3>>>>();
}

// Bytes of a step's gradients, as the recorded calls of rank 0 have them: of an all-gather what
// all ranks give, of an all-reduce, which sends each of them twice, what one does.
// @param targets  of a sample
template <class Net>
std::int64_t gradient_bytes(std::size_t targets = 1) {
  test::Watchdog const watchdog{"a step of recorded gradients"};
  using Log = test::LoggingTransport<2>;
  using Loss = DefaultLoss<Net>;
  Trainer<Net, DataParallel<2>, Portables, Loss, DefaultMetric<Loss>, test::LoggingTransport>
      trainer{{.batch = 4, .optimizer = Sgd{}, .threads_per_device = 1}};
  Log::clear();
  static_cast<void>(
      trainer.step(std::vector<std::int32_t>(16, 3), std::vector<std::int32_t>(4 * targets, 1)));
  std::int64_t bytes = 0;
  for (Record const& record : Log::log(0)) {
    bytes += record.label.index >= 0 ? record.bytes : 0;
  }
  return bytes;
}

template <class... Options>
struct Sent : Network<Tokens<4, 4000>,
                      Sequential<Embedding<4000, 16, Options...>, MeanOverTime, Linear<5>>> {};

TEST_CASE("gradients of rows: few bytes go over the wire") {
  std::int64_t const dense = gradient_bytes<Sent<>>();
  std::int64_t const rows = gradient_bytes<Sent<RowGradient>>();
  std::int64_t const others = dense - 4000 * 16 * 4;
  CHECK(others == (80 + 16) * 4);
  CHECK(rows - others == 2 * gradient_rows_bytes(8, 16, 4));
  CHECK(20 * rows < dense);
}

// Of a sampled softmax, whose weight and bias have the rows of the words that are drawn and of the
// targets.
template <class... Options>
struct SentSoftmax
    : Network<Tokens<4, 4000>,
              Sequential<Embedding<4000, 16>, Vocabulary<4000, Sampled<20>, Options...>>> {};

TEST_CASE("gradients of a sampled softmax's rows: few bytes go over the wire") {
  std::int64_t const others = 4000 * 16 * 4;  // of the embedding, which is dense in both
  std::int64_t const dense = gradient_bytes<SentSoftmax<>>(4);
  std::int64_t const rows = gradient_bytes<SentSoftmax<RowGradient>>(4);
  CHECK(dense == others + (4000 * 16 + 4000) * 4);
  constexpr std::int64_t most = 20 + 2 * 4;  // drawn, and targets of a replica's two samples
  CHECK(rows - others == 2 * (gradient_rows_bytes(most, 16, 4) + gradient_rows_bytes(most, 1, 4)));
  CHECK(20 * (rows - others) < dense - others);
}

// As sequences have it: 200,000 words of 256 channels, 2,560 of them a batch.
static_assert(20 * 2 * gradient_rows_bytes(1280, 256, 4) < std::int64_t{200'000} * 256 * 4);
// BIGLSTM's, 256 samples a device: 8,192 drawn words and 5,120 targets beside 5,120 of the text.
static_assert(40 * 2 *
                  (gradient_rows_bytes(5120, 1024, 4) + gradient_rows_bytes(8192 + 5120, 1024, 4) +
                   gradient_rows_bytes(8192 + 5120, 1, 4)) <
              2 * words + std::int64_t{793'470} * 4);

std::string refusal(TrainerOptions const& options) {
  return test::message<ContractError>(
      [&] { check_row_gradients(graph<RowNet<RowGradient>>, options); });
}

TEST_CASE("gradients of rows: what changes other rows is refused by name") {
  check_row_gradients(graph<RowNet<RowGradient>>, {.optimizer = Sgd{}});
  check_row_gradients(graph<RowNet<>>, {.optimizer = Adam{}, .average = {.decay = 0.9}});
  CHECK(refusal({.optimizer = Adam{}}) ==
        "TrainerOptions: the gradient of '0.weight' is of the rows that a step touches "
        "(RowGradient), but Adam changes the other rows, too; take it out, or leave RowGradient "
        "out of the layer");
  CHECK(test::contains(refusal({.optimizer = Sgd{.momentum = 0.9F}}), "the momentum of Sgd"));
  CHECK(test::contains(refusal({.optimizer = Sgd{.weight_decay = 0.1F}}), "weight decay"));
  CHECK(test::contains(refusal({.optimizer = own_optimizer<Portables>(RMSprop{})}), "RMSprop"));
  CHECK(test::contains(
      refusal({.optimizer = own_optimizer<Portables>(Adagrad{.weight_decay = 0.1F})}),
      "weight decay"));
  CHECK(test::contains(
      refusal({.optimizer = Sgd{}, .groups = {{.pattern = "0.*", .weight_decay = 0.1F}}}),
      "weight decay"));
  CHECK(test::contains(refusal({.optimizer = Sgd{}, .average = {.decay = 0.9}}), "average"));
  // Of others, and of what stays as it is, all this is allowed.
  check_row_gradients(graph<RowNet<RowGradient>>,
                      {.optimizer = Sgd{.weight_decay = 0.1F},
                       .groups = {{.pattern = "0.*", .weight_decay = 0.0F}},
                       .average = {.decay = 0.9, .pattern = "1.*"}});
  check_row_gradients(graph<RowNet<RowGradient>>,
                      {.optimizer = Adam{}, .groups = {{.pattern = "0.*", .frozen = true}}});
  CHECK(test::contains(
      test::message<ContractError>([] {
        Trainer<RowNet<RowGradient>, SingleDevice<Microbatches<4>, Reproducible<>>, Portables>{
            {.batch = 12, .optimizer = AdamW{}}};
      }),
      "AdamW"));
}

}  // namespace row_gradient_volume_test
}  // namespace tandem
