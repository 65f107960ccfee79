// SPDX-License-Identifier: Apache-2.0
// A stage that fails in the middle of a pipeline's step: nobody waits for ever, the error names the
// rank, and the trainer does nothing more.

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <tandem/schedule/orders/make_schedule.hpp>
#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <support/watchdog.hpp>
#include <tiny_network.hpp>
#include <trap_network.hpp>

namespace tandem::test {
namespace pipeline_failure_test {

using Three = Trainer<TrapNet, Pipeline<ZeroBubbleH1, 4, Split<2>, Split<2>, Split<3>>, Host>;

Samples<float> const data{Three::input, 3, 8};

/// Nothing but reading goes on, and that only where no stage was in its update: the parameters are
/// those of before the step then.
void check_refusal(Three& trainer, Three const& untouched) {
  CHECK(contains(message<ContractError>([&] { trainer.step(data.x, data.y); }),
                 "a rank of this trainer has failed, so its "));
  try {
    CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
  } catch (ContractError const& torn) {  // a stage behind the loss may be done before others fail
    CHECK(contains(torn.what(), "so its replicas may differ: make a new Trainer and load a "));
  }
}

TEST_CASE("a stage that throws ends the step on all devices, under every schedule") {
  for (std::string_view const schedule : {"gpipe", "one_f_one_b", "zero_bubble_h1"}) {
    for (int victim = 0; victim < 3; ++victim) {
      for (Pass const pass : {Pass::forward, Pass::backward}) {
        for (int const call : {1, 3, 4}) {
          Watchdog const watchdog{"a stage throws"};
          INFO(schedule << ", rank " << victim << ", call " << call);
          TrainerOptions const options{
              .batch = 8, .threads_per_device = 1, .rows = make_schedule(schedule, 3, 4)};
          Three trainer{options};
          Three untouched{options};
          trainer.step(data.x, data.y);
          untouched.step(data.x, data.y);
          Trap::set(victim, pass, call);
          std::string const who = std::to_string(victim);
          std::string const m = std::to_string(call - 1);
          std::string const text = message<RankError>([&] { trainer.step(data.x, data.y); });
          INFO(text);
          CHECK(text.starts_with("rank " + who + ", at " + who));
          CHECK(text.ends_with(m + " (microbatch " + m + "): sprung"));
          CHECK(Trap::calls == 0);
          Trap::set(-1, Pass::none, 0);
          check_refusal(trainer, untouched);
        }
      }
    }
  }
}

TEST_CASE("a stage that does not come in time: who, which message, in which action") {
  struct Late {
    int stage;
    Pass pass;
    char const* sought;
  };
  for (auto const& [stage, pass, sought] : {Late{1, Pass::forward, "1F2"},
                                            {1, Pass::backward, "1B2"},
                                            {0, Pass::forward, "0F2"},  // the last stage waits, too
                                            {2, Pass::backward, "2B2"}}) {
    Watchdog const watchdog{"a stage is late"};
    TrainerOptions const options{.batch = 8,
                                 .threads_per_device = 1,
                                 .timeout = std::chrono::milliseconds{300},
                                 .rows = make_schedule("one_f_one_b", 3, 4)};
    Three trainer{options};
    Three untouched{options};
    trainer.step(data.x, data.y);
    untouched.step(data.x, data.y);
    Trap::set(stage, pass, 3, std::chrono::milliseconds{800});
    std::string const who = "rank " + std::to_string(stage);
    auto const start = std::chrono::steady_clock::now();
    std::string const text = message<RankError>([&] { trainer.step(data.x, data.y); });
    auto const waited = std::chrono::steady_clock::now() - start;
    Trap::set(-1, Pass::none, 0);
    INFO(text);
    if (contains(text, who + " did not send message")) {
      CHECK(contains(text, "waits to receive ("));
      CHECK(contains(text, " boundary "));
    } else {  // a rank that had nothing left to receive was the first to lose patience
      CHECK(contains(text, who + " did not reach all-reduce"));
    }
    CHECK(contains(text, "within 300 ms"));
    CHECK(contains(text, sought));
    CHECK(waited >= std::chrono::milliseconds{300});
    CHECK(waited < std::chrono::seconds{20});
    check_refusal(trainer, untouched);
  }
}

TEST_CASE("a loss that is no number: the step has not happened on any device") {
  Watchdog const watchdog{"non-finite loss"};
  TrainerOptions const options{.batch = 8,
                               .optimizer = Sgd{.learning_rate = 0.1F, .momentum = 0.9F},
                               .threads_per_device = 1};
  Three trainer{options};
  Three untouched{options};
  trainer.step(data.x, data.y);
  untouched.step(data.x, data.y);
  Samples<float> bad = data;
  bad.x[5 * 4] = std::numeric_limits<float>::quiet_NaN();  // sample 5 is in microbatch 2
  std::string const text = message<NonFiniteLoss>([&] { trainer.step(bad.x, bad.y); });
  INFO(text);
  CHECK(contains(text, "step 1: the loss of microbatch 2"));
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
  trainer.step(data.x, data.y);
  untouched.step(data.x, data.y);
  CHECK(first_difference(trainer.parameters(), untouched.parameters()) == "");
}

}  // namespace pipeline_failure_test
}  // namespace tandem::test
