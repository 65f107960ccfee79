// SPDX-License-Identifier: Apache-2.0
// The functors of Cuda's recurrent kernels, run on the host, compute what Host's kernels do:
// rows of samples far apart, some of which have ended.
#include <tandem/kernels/cuda/recurrent_rows.hpp>

#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/kernels/host/recurrent.hpp>

#include "support.hpp"

namespace recurrent_rows_test {

using namespace tandem;
using Numbers = std::vector<double>;

constexpr std::int64_t batch = 3;
constexpr std::int64_t hidden = 5;
constexpr std::int64_t rows_apart = 4;  // rows between one sample and the next, on Cuda

/// As many rows of samples as there are, at their places among `rows_apart`.
Numbers spread(Numbers const& x, std::int64_t width) {
  Numbers all(static_cast<std::size_t>(batch * rows_apart * width), -7.0);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t j = 0; j < width; ++j) {
      all[static_cast<std::size_t>((b * rows_apart + 1) * width + j)] =
          x[static_cast<std::size_t>(b * width + j)];
    }
  }
  return all;
}
template <class E>
cuda::StateRows<E> row_of(std::vector<E>& all, std::int64_t width) {
  return {all.data() + width, rows_apart * width};
}
template <class Functor>
void each(Functor const& functor) {
  for (std::int64_t i = 0; i < batch * hidden; ++i) {
    functor(i);
  }
}

/// Where products and sums are one operation is each compiler's choice.
bool same(Numbers const& a, Numbers const& b) {
  return test::within(a, b, test::constant(b.size(), 16 * test::eps<double>));
}

struct Given {
  std::int32_t lengths[batch] = {3, 2, 5};
  RecurrentRow row{batch, hidden, 2, lengths};  // the second has ended
  Numbers before = test::random<double>(batch * hidden, 2);
  Numbers dy = test::random<double>(batch * hidden, 3);
  Numbers dh = test::random<double>(batch * hidden, 4);
  Numbers dc = test::random<double>(batch * hidden, 5);
  Numbers c = Numbers(batch * hidden);
  Numbers h = Numbers(batch * hidden);
  host::Team team{1};

  host::SampleRows<double const> dy_rows() { return {dy.data(), 1, hidden}; }
};

TEST_CASE("an Lstm's row and its gradient, as Host's") {
  Given g;
  Numbers gates = test::random<double>(batch * 4 * hidden, 1);
  Numbers const bias = test::random<double>(4 * hidden, 6);
  Numbers own = spread(gates, 4 * hidden);
  Numbers own_c = spread(g.c, hidden);
  Numbers own_h = spread(g.h, hidden);
  Numbers own_before = spread(g.before, hidden);
  host::LstmRow<double> at{gates.data(),
                           {bias.data(), nullptr},
                           1.0,
                           gates.data(),
                           g.before.data(),
                           g.c.data(),
                           g.h.data(),
                           {}};
  host::lstm_row(g.team, g.row, at);
  cuda::LstmRow<double> cell{g.row};
  cell.sums = row_of(own, 4 * hidden).read();
  cell.bias[0] = bias.data();
  cell.forget = 1.0;
  cell.gates = row_of(own, 4 * hidden);
  cell.before = row_of(own_before, hidden).read();
  cell.c = row_of(own_c, hidden);
  cell.h = row_of(own_h, hidden);
  each(cell);
  CHECK(same(own, spread(gates, 4 * hidden)));
  CHECK(same(own_c, spread(g.c, hidden)));
  CHECK(same(own_h, spread(g.h, hidden)));

  Numbers dc = g.dc;
  Numbers own_dy = spread(g.dy, hidden);
  host::lstm_row_gradient(g.team, g.row, at, {g.dh.data(), g.dy_rows()}, dc.data());
  cuda::LstmRowGradient<double> back{g.row};
  back.gates = cell.gates;
  back.before = cell.before;
  back.c = cell.c.read();
  back.dh = {g.dh.data(), hidden};
  back.dy = row_of(own_dy, hidden).read();
  back.later = back.dc = g.dc.data();
  each(back);
  CHECK(same(own, spread(gates, 4 * hidden)));
  CHECK(same(g.dc, dc));
}

TEST_CASE("a Gru's row and its gradient, as Host's") {
  Given g;
  Numbers gates = test::random<double>(batch * 3 * hidden, 1);
  Numbers const of_state = test::random<double>(batch * 3 * hidden, 7);
  Numbers const bias = test::random<double>(3 * hidden, 6);
  Numbers kept(of_state.size(), 0.5);
  Numbers own = spread(gates, 3 * hidden);
  Numbers own_kept = spread(kept, 3 * hidden);
  Numbers own_h = spread(g.h, hidden);
  Numbers own_before = spread(g.before, hidden);
  host::GruRow<double> at{gates.data(),
                          of_state.data(),
                          {nullptr, bias.data()},
                          gates.data(),
                          kept.data(),
                          g.before.data(),
                          g.h.data(),
                          {}};
  host::gru_row(g.team, g.row, at);
  cuda::GruRow<double> cell{g.row};
  cell.of_input = row_of(own, 3 * hidden).read();
  cell.of_state = {of_state.data(), 3 * hidden};
  cell.bias[1] = bias.data();
  cell.gates = row_of(own, 3 * hidden);
  cell.kept = row_of(own_kept, 3 * hidden);
  cell.before = row_of(own_before, hidden).read();
  cell.h = row_of(own_h, hidden);
  each(cell);
  CHECK(same(own, spread(gates, 3 * hidden)));
  CHECK(same(own_kept, spread(kept, 3 * hidden)));
  CHECK(same(own_h, spread(g.h, hidden)));

  Numbers dh = g.dh;
  Numbers own_dy = spread(g.dy, hidden);
  host::gru_row_gradient(g.team, g.row, at, {dh.data(), g.dy_rows()});
  cuda::GruRowGradient<double> back{g.row};
  back.gates = cell.gates;
  back.kept = cell.kept;
  back.before = cell.before;
  back.later = back.dh = g.dh.data();
  back.dy = row_of(own_dy, hidden).read();
  each(back);
  CHECK(same(own, spread(gates, 3 * hidden)));
  CHECK(same(own_kept, spread(kept, 3 * hidden)));
  CHECK(same(g.dh, dh));
}

}  // namespace recurrent_rows_test
