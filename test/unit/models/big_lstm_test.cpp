// SPDX-License-Identifier: Apache-2.0
// BigLSTM in its two sizes, as published, and what options change of it.

#include <tandem/models/big_lstm.hpp>

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include <tandem/graph/graph_view.hpp>
#include <tandem/graph/lower.hpp>
#include <tandem/optim/adagrad.hpp>
#include <tandem/strategy/fits.hpp>

namespace tandem {
namespace big_lstm_test {

using Large = models::BigLstm<793470, 8192, 1024, 2>;
using Usual = models::BigLstm<793470, 2048, 512, 1>;

static_assert(graph<Large>.parameter_elements() == 1'776'880'510);
static_assert(graph<Usual>.parameter_elements() == 822'752'126);
static_assert(graph<Large>.tops == 5 && graph<Usual>.tops == 4);

template <class Net>
constexpr Node const& last = graph<Net>.node[graph<Net>.nodes - 1];

// Multiply-accumulates of a sample of 20 words: 8,192 drawn ones and the target.
static_assert(last<Large>.macs == 20LL * 1024 * 8193);
static_assert(last<models::BigLstm<100, 8, 4, 1>>.macs == 20 * 4 * 100);
static_assert(last<models::BigLstm<100, 8, 4, 1, Sampled<9>>>.macs == 20 * 4 * 10);

// As the source trains it, on two devices of 256 samples each: the gradients of its matrices are of
// 8,192 drawn words and 5,120 targets, where dense ones took 3.25 GB each; all of them with the
// LSTMs' together take less than that.
using Published = models::BigLstm<793470, 8192, 1024, 2, Stateful, RowGradient>;
static_assert(graph<Published>.parameter_elements() == 1'776'880'510);
template <class Net>
constexpr DeviceMemory on_two = device_memory<Net, DataParallel<2>, Adagrad, Fp32>(512, 0);
static_assert(on_two<Large>.gradients > 7'000'000'000);
static_assert(on_two<Published>.gradients < 950'000'000);
// Beside those of the LSTMs: a device's own rows, the rows of both, and their sum.
static_assert(on_two<Published>.gradients - 151'060'480LL * 4 < 345'000'000);
static_assert(on_two<Published>.parameters == on_two<Large>.parameters);

// Where no sample is drawn, only the words' gradient is of rows; a dropout and a sample of one's
// own.
template <class Net, int P>
constexpr bool by_rows = graph<Net>.parameter[P].parameter.touched.sparse();
static_assert(by_rows<models::BigLstm<100, 8, 4, 1, RowGradient>, 0> &&
              !by_rows<models::BigLstm<100, 8, 4, 1, RowGradient>, 5>);
static_assert(by_rows<models::BigLstm<100, 8, 4, 1, Percent<0>, RowGradient, Sampled<9>>, 5>);
static_assert(!by_rows<Large, 0> && !by_rows<Large, 9> && by_rows<Published, 9>);

TEST_CASE("parameters have PyTorch's names, and BigLSTM's initial values") {
  auto const& net = graph<Usual>;
  auto const bound = [&](std::string const& name) {
    for (int p = 0; p < net.parameters; ++p) {
      if (parameter_name(net, p) == name) {
        Init const& init = net.parameter[p].parameter.init;
        CHECK(init.law == (init.value == 0.0F ? Init::Law::constant : Init::Law::uniform));
        return static_cast<double>(init.value);
      }
    }
    FAIL_CHECK("there is no " << name);
    return 0.0;
  };
  CHECK(bound("0.weight") == doctest::Approx(std::sqrt(3.0 / 99184)));
  CHECK(bound("2.0.0.weight_ih_l0") == doctest::Approx(std::sqrt(6.0 / (1024 + 8192))));
  CHECK(bound("2.0.0.weight_hh_l0") == doctest::Approx(std::sqrt(6.0 / (1024 + 8192))));
  CHECK(bound("2.0.0.bias_ih_l0") == 0.0);
  CHECK(bound("2.0.0.weight_hr_l0") == doctest::Approx(std::sqrt(6.0 / (2048 + 512))));
  CHECK(bound("3.weight") == doctest::Approx(std::sqrt(3.0 / 99184)));
  CHECK(bound("3.bias") == doctest::Approx(std::sqrt(3.0 / 793470)));
}

}  // namespace big_lstm_test
}  // namespace tandem
