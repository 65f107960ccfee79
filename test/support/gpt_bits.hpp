// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Whether strategies train a GPT in float to the same bits.

#include <small_gpt.hpp>

namespace tandem::test {

template <class Backend, class Net = SmallGpt>
using ReproducibleGpt = TrainedGpt<SingleDevice<Microbatches<4>, Reproducible<4>>, Backend, Net>;

/// That S gives the bits of @p one, whatever stands behind the ends of sequences.
template <class S, class Backend, class Net>
void check_gpt_bits(ReproducibleGpt<Backend, Net> const& one) {
  TrainedGpt<S, Backend, Net> const many{5};
  for (std::size_t s = 0; s < one.results.size(); ++s) {
    INFO("step " << s);
    CHECK(one.results[s].loss == many.results[s].loss);
    CHECK(one.results[s].gradient_norm == many.results[s].gradient_norm);
  }
  for (int replica = 0; replica < S::ranks / S::devices; ++replica) {
    CHECK(first_difference(many.trainer.parameters(replica), one.trainer.parameters()) == "");
  }
}

template <class Backend>
void check_gpt_bits() {
  using R = Reproducible<4>;
  ReproducibleGpt<Backend> const one;
  check_gpt_bits<DataParallel<2, Microbatches<2>, R>>(one);
  check_gpt_bits<DataParallel<4, R>>(one);
  check_gpt_bits<Pipeline<OneFOneB, 4, Split<2>, Split<4>, R>>(one);
  check_gpt_bits<Pipeline<Chimera, 4, Split<3>, Split<3>, R>>(one);
  check_gpt_bits<Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<3>, Split<3>>>>(one);
}

/// With recurrent layers.
template <class Backend>
void check_lstm_bits() {
  using R = Reproducible<4>;
  ReproducibleGpt<Backend, SmallLstm> const one;
  check_gpt_bits<DataParallel<2, Microbatches<2>, R>>(one);
  check_gpt_bits<Hybrid<DataParallel<2, R>, Pipeline<OneFOneB, 2, Split<3>, Split<3>>>>(one);
}

}  // namespace tandem::test
