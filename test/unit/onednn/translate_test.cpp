// SPDX-License-Identifier: Apache-2.0
#if defined(TANDEM_ONEDNN)

// translate() with oneDNN's products, in fp32 and in bf16.

#include <cmath>

#include <translated_text.hpp>

namespace tandem {
namespace onednn_translate_test {

using test::translated::check;

TEST_CASE("by oneDNN in fp32 the search is the slow one") {
  check<SingleDevice<>, BasicHost<OneDnn, Fp32>>(10, {{.width = 3}, {.width = 1}}, 1e-3);
}

// Products of other shapes round otherwise, so that of near hypotheses another may be found.
TEST_CASE("in bf16 the best of one hypothesis has the score of its text") {
  test::Watchdog const watchdog{"translate()"};
  if (!onednn::detail::has_avx512()) {
    return;
  }
  using Net = test::translated::Net;
  Trainer<Net, SingleDevice<>, BasicHost<OneDnn, Bf16>> trainer{test::translated::options(10)};
  test::translated::enlarge(trainer);
  Predictor<Net, BasicHost<OneDnn, Bf16>> predictor{{.batch = 10, .threads = 1}};
  predictor.take(trainer);
  DecodeTask const task = test::translated::task();
  auto const found = trainer.search(task, {.width = 3});
  for (std::size_t i = 0; i < found.size(); ++i) {
    Hypothesis const& best = found[i].front();
    double sum = 0.0;
    std::vector<std::int32_t> written;
    auto tokens = best.tokens;
    if (best.ended) {
      tokens.push_back(task.end);
    }
    for (std::int32_t const token : tokens) {
      sum += test::translated::next(predictor, task.sources[i],
                                    written)[static_cast<std::size_t>(token)];
      written.push_back(token);
    }
    CHECK(std::fabs(sum - best.log_probability) <= 0.2);
  }
}

}  // namespace onednn_translate_test
}  // namespace tandem

#endif  // TANDEM_ONEDNN
