// SPDX-License-Identifier: Apache-2.0
// Watchers of train(): what they see, that they may stop, save and set the learning rate, and that
// a watched run has the bits of one that is not.

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tandem/tandem.hpp>

#include <compare.hpp>
#include <support/temporary_folder.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace watch_test {

using Net = test::PlainNet;

constexpr int samples = 28;  // batches of 8, 8, 8, 4
auto const training = test::dataset(Net::input::shape, 3, samples, 3);

TrainerOptions options() {
  return {.batch = 8,
          .optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
          .schedule = Cosine{.steps = 12},
          .clip_norm = 1.0,
          .seed = 5,
          .threads_per_device = 1};
}

using Single = Trainer<Net, SingleDevice<>, Host>;
using Two = Trainer<Net, DataParallel<2>, Host>;

TEST_CASE_TEMPLATE("a watcher sees each step, and a watched run has the same bits", Run, Single,
                   Two) {
  Run plain{options()};
  Run watched{options()};
  std::vector<StepReport> seen;
  std::vector<std::int64_t> order;
  for (Epoch const epoch : epochs(2)) {
    EpochResult const one = plain.train(training, epoch);
    EpochResult const other = watched.train(
        training, epoch, [&](StepReport const& report) { seen.push_back(report); },
        [&](StepReport const& report) { order.push_back(report.step); });
    CHECK(one.loss == other.loss);
    CHECK(one.accuracy == other.accuracy);
    CHECK_FALSE(other.stopped);
  }
  CHECK(test::first_difference(plain.parameters(), watched.parameters()) == "");
  REQUIRE(seen.size() == 8);
  for (int s = 0; s < 8; ++s) {
    StepReport const& report = seen[static_cast<std::size_t>(s)];
    CHECK(report.step == s + 1);
    CHECK(order[static_cast<std::size_t>(s)] == s + 1);
    CHECK(report.epoch == s / 4);
    CHECK(report.epoch_samples == samples);
    CHECK(report.samples == (s % 4 == 3 ? samples : 8 * (s % 4 + 1)));
    CHECK(report.batch == (s % 4 == 3 ? 4 : 8));
    CHECK(report.learning_rate == learning_rate_at(options(), s));
    CHECK(report.gradient_norm > 0.0);
    CHECK(report.loss > 0.0);
  }
}

TEST_CASE("a watcher stops, and the next train() of the epoch goes on behind that step") {
  Single plain{options()};
  Single stopped{options()};
  EpochResult const whole = plain.train(training, 0);
  EpochResult const part =
      stopped.train(training, 0, Progress::none(), [](StepReport const& report) {
        return report.step == 2 ? AfterStep::stop : AfterStep::go_on;
      });
  CHECK(part.stopped);
  CHECK(part.samples == 16);
  CHECK(stopped.position().epoch == 0);
  CHECK(stopped.position().position == 16);
  EpochResult const rest = stopped.train(training, 0);
  CHECK(rest.samples == 12);
  CHECK(stopped.position().epoch == 1);
  CHECK((part.loss * 16 + rest.loss * 12) / samples == doctest::Approx(whole.loss));
  CHECK(test::first_difference(plain.parameters(), stopped.parameters()) == "");
}

TEST_CASE("what a watcher saves is a checkpoint of just that step") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("step.safetensors");
  Two plain{options()};
  double evaluated = 0.0;
  plain.train(training, 0, [&](StepReport const& report) {
    if (report.step == 3) {
      plain.save(path);
      evaluated = plain.evaluate(training).loss;
    }
  });
  Single resumed{options()};
  resumed.load(path);
  CHECK(resumed.position().step == 3);
  CHECK(resumed.position().position == 24);
  CHECK(resumed.evaluate(training).loss == doctest::Approx(evaluated));
  Two exact{options()};
  exact.load(path);
  exact.train(training, 0);
  CHECK(test::first_difference(plain.parameters(), exact.parameters()) == "");
}

TEST_CASE("a learning rate that was set is taken from the next step on, and kept by checkpoints") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("rate.safetensors");
  Single trainer{options()};
  std::vector<double> rates;
  trainer.train(training, 0, [&](StepReport const& report) {
    rates.push_back(report.learning_rate);
    if (report.step == 2) {
      trainer.set_learning_rate(0.5);
    }
  });
  Schedule const schedule = options().schedule;
  REQUIRE(rates.size() == 4);
  CHECK(rates[1] == double{0.05F} * schedule.factor(1));
  CHECK(rates[2] == 0.5 * schedule.factor(2));
  CHECK(trainer.learning_rate() == 0.5 * schedule.factor(4));
  trainer.save(path);
  Single resumed{options()};
  CHECK(resumed.learning_rate() == double{0.05F});
  resumed.load(path);
  CHECK(resumed.learning_rate() == 0.5 * schedule.factor(4));
  trainer.train(training, 1);
  resumed.train(training, 1);
  CHECK(test::first_difference(trainer.parameters(), resumed.parameters()) == "");
  for (double const bad : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK(test::message<ContractError>([&] { trainer.set_learning_rate(bad); }) ==
          "set_learning_rate(rate): give a finite number of 0 or more");
  }
}

TEST_CASE("a loop of steps says where it stands") {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("loop.safetensors");
  Single trainer{options()};
  trainer.set_position(2, 16);
  trainer.save(path);
  Single resumed{options()};
  resumed.load(path);
  CHECK(resumed.position().epoch == 2);
  CHECK(resumed.position().position == 16);
  CHECK(test::message<ContractError>([&] { trainer.set_position(-1); }) ==
        "set_position(epoch, samples): both are counted from 0");
}

TEST_CASE("a watcher may not train, nor load") {
  test::TemporaryFolder const folder;
  Single trainer{options()};
  trainer.save(folder.file("first"));
  std::vector<std::string> said;
  trainer.train(training, 0, [&](StepReport const& report) {
    if (report.step == 1) {
      said.push_back(test::message<ContractError>([&] { trainer.train(training, 1); }));
      said.push_back(test::message<ContractError>([&] { trainer.load(folder.file("first")); }));
    }
  });
  REQUIRE(said.size() == 2);
  CHECK(said[0].starts_with("train(): train() of this trainer has not returned yet"));
  CHECK(said[1].starts_with("load(): train() of this trainer has not returned yet"));
  CHECK(trainer.position().epoch == 1);
}

TEST_CASE("an error that a watcher throws leaves the trainer as after the step") {
  Single plain{options()};
  Single thrown{options()};
  plain.train(training, 0);
  CHECK_THROWS_AS(thrown.train(training, 0,
                               [](StepReport const& r) {
                                 if (r.step == 3)
                                   throw 1;
                               }),
                  int);
  CHECK(thrown.position().position == 24);
  thrown.train(training, 0);
  CHECK(test::first_difference(plain.parameters(), thrown.parameters()) == "");
}

TEST_CASE("a log has a line of JSON or of CSV for each step that it is asked for") {
  test::TemporaryFolder const folder;
  std::string const json = folder.file("run.jsonl");
  std::string const csv = folder.file("run.csv");
  {
    Single trainer{options()};
    StepLog lines{json, {.every = 3}};
    StepLog columns{csv};
    trainer.train(training, 0, lines, columns);
    Evaluation result = trainer.evaluate(training);
    result.loss = 1.5;
    result.metrics.value[0] = 0.25;
    columns.evaluation(trainer.position(), result);
    result.metrics.value[0] = std::nan("");
    lines.evaluation(trainer.position(), result);
  }
  std::string const text = test::content(json);
  CHECK(text.starts_with("{\"kind\":\"step\",\"step\":3,\"epoch\":0,\"samples\":24,\"loss\":"));
  CHECK(test::contains(text,
                       "\n{\"kind\":\"evaluation\",\"step\":4,\"epoch\":1,\"samples\":0,"
                       "\"loss\":1.5,\"accuracy\":null,\"seconds\":"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  std::string const table = test::content(csv);
  CHECK(
      table.starts_with("kind,step,epoch,samples,loss,accuracy,learning_rate,gradient_norm,"
                        "seconds\nstep,1,0,8,"));
  CHECK(test::contains(table, "\nevaluation,4,1,0,1.5,0.25,,,"));
  std::istringstream rows{table};
  for (std::string row; std::getline(rows, row);) {
    CHECK(std::count(row.begin(), row.end(), ',') == 8);
  }
  { StepLog const more{csv, {.append = true}}; }
  CHECK(test::content(csv) == table);
  CHECK(test::contains(test::message<FileError>([&] { StepLog{folder.file("no/such.csv")}; }),
                       "the log cannot be written: No such file or directory"));
  CHECK(test::contains(test::message<ContractError>([&] { StepLog{folder.file("run.txt")}; }),
                       "must end in .jsonl or in .csv"));
}

/// The lines of a log, without the seconds that it tells.
std::vector<std::string> lines_of(std::string const& path) {
  std::vector<std::string> lines;
  std::istringstream text{test::content(path)};
  for (std::string line; std::getline(text, line);) {
    auto const seconds = path.ends_with(".csv") ? line.rfind(',') : line.rfind("\"seconds\":");
    lines.push_back(line.substr(0, seconds));
  }
  return lines;
}

TEST_CASE("a log that goes on has each step once, wherever the run before it ended") {
  test::TemporaryFolder const folder;
  Evaluation const result{.loss = 0.5};
  // Steps `from` to `to`, and an evaluation after each fourth, as a run has them.
  auto const write = [&](StepLog& log, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step <= to; ++step) {
      log(StepReport{.step = step, .loss = 1.0 / static_cast<double>(step), .seconds = 1.0});
      if (step % 4 == 0) {
        log.evaluation(TrainingPosition{.step = step}, result);
      }
    }
  };
  for (std::string const name : {"a.jsonl", "a.csv"}) {
    for (std::int64_t const every : {1, 3}) {
      std::string const whole = folder.file("whole." + name);
      {
        StepLog log{whole, {.every = every}};
        write(log, 1, 8);
      }
      for (std::int64_t crashed = 0; crashed <= 8; ++crashed) {
        for (std::int64_t saved = 0; saved <= crashed; ++saved) {
          CAPTURE(crashed);
          CAPTURE(saved);
          std::string const path = folder.file(name);
          {
            StepLog log{path, {.every = every}};
            write(log, 1, crashed);
          }
          if (saved % 2 == 1) {  // the crash has left half a line
            test::put(path, test::content(path) + (name == "a.csv" ? "st" : "{\"ki"));
          }
          {
            StepLog log{path, {.every = every, .append = true}};
            if (saved % 4 == 0 && saved > 0) {  // saved before the evaluation of its step
              log.evaluation(TrainingPosition{.step = saved}, result);
            }
            write(log, saved + 1, 8);
          }
          CHECK(lines_of(path) == lines_of(whole));
        }
      }
    }
  }
  std::string const text = test::content(folder.file("a.csv"));
  std::string const path = folder.file("seconds.csv");
  test::put(path, text);
  StepLog log{path, {.append = true}};
  log(StepReport{.step = 9, .seconds = 2.0});
  double const before = std::stod(text.substr(text.rfind(',') + 1));
  std::string const more = test::content(path);
  CHECK(before > 0.0);
  CHECK(std::stod(more.substr(more.rfind(',') + 1)) == before + 2.0);
  log(StepReport{.step = 10, .epoch = 1, .seconds = 4.0});  // longer than all of the epoch before
  std::string const all = test::content(path);
  CHECK(std::stod(all.substr(all.rfind(',') + 1)) == before + 6.0);
}

struct Half {  // of its name, what a table or a string must not take as it is
  static constexpr std::string_view name = "half, \"so\" <";
  static double value(auto /*y*/, auto /*t*/) { return 0.5; }
};
template <class M>
using Measured = Trainer<Net, SingleDevice<>, Host, SoftmaxCrossEntropy<>, M>;

TEST_CASE("several metrics at once, each under its own name, are what each is alone") {
  Measured<Metrics<Half, TopK<2>, Accuracy>> all{options()};
  Measured<Accuracy> one{options()};
  Measured<TopK<2>> two{options()};
  std::vector<std::string> names;
  std::vector<double> values;
  EpochResult const epoch = all.train(training, 0, [&](StepReport const& report) {
    for (auto const [name, value] : report.metrics) {
      names.emplace_back(name);
      values.push_back(value);
    }
    CHECK(report.metric == 0.5);
  });
  CHECK(std::vector<std::string>(names.begin(), names.begin() + 3) ==
        std::vector<std::string>{"half, \"so\" <", "top-2 accuracy", "accuracy"});
  std::vector<double> alone;
  EpochResult const of_one =
      one.train(training, 0, [&](StepReport const& r) { alone.push_back(r.metric); });
  EpochResult const of_two =
      two.train(training, 0, [&](StepReport const& r) { alone.push_back(r.metric); });
  std::size_t const steps = values.size() / 3;
  REQUIRE(alone.size() == 2 * steps);
  for (std::size_t s = 0; s < steps; ++s) {
    CHECK(values[3 * s] == 0.5);
    CHECK(values[3 * s + 1] == alone[steps + s]);
    CHECK(values[3 * s + 2] == alone[s]);
  }
  CHECK(epoch.metric == 0.5);
  CHECK(epoch.accuracy == of_one.accuracy);
  CHECK(epoch.metrics["top-2 accuracy"] == of_two.metric);
  CHECK(std::isnan(of_two.accuracy));  // never another metric's value
  Evaluation const result = all.evaluate(training);
  CHECK(result.metrics["accuracy"] == one.evaluate(training).accuracy);
  CHECK(result.metrics["top-2 accuracy"] == two.evaluate(training).metric);
  CHECK(test::message<ContractError>([&] { (void)result.metrics["loss"]; }) ==
        "metrics[name]: this trainer has no metric 'loss', it has 'half, \"so\" <', 'top-2 "
        "accuracy', "
        "'accuracy'");
  CHECK(test::contains(test::message<ContractError>([&] { (void)Evaluation{}.metrics["x"]; }),
                       "it has none"));
}

TEST_CASE("a log has each metric under its own name, and nothing of one that there is not") {
  test::TemporaryFolder const folder;
  auto const logged = [&](auto trainer, std::string const& file) {
    StepLog log{folder.file(file)};
    trainer->train(training, 0, log);
    log.evaluation(trainer->position(), trainer->evaluate(training));
    return test::content(folder.file(file));
  };
  using Several = Measured<Metrics<TopK<2>, Half>>;
  std::string const lines = logged(std::make_unique<Several>(options()), "a.jsonl");
  CHECK(test::contains(lines, ",\"top-2 accuracy\":"));
  CHECK(test::contains(lines, ",\"half, \\\"so\\\" \\u003c\":0.5,\"learning_rate\":"));
  CHECK(test::contains(lines, ",\"half, \\\"so\\\" \\u003c\":0.5,\"seconds\":"));
  std::string const table = logged(std::make_unique<Several>(options()), "a.csv");
  CHECK(table.starts_with(
      "kind,step,epoch,samples,loss,top-2 accuracy,\"half, \"\"so\"\" <\",learning_rate,"));
  std::string const none = logged(std::make_unique<Measured<NoMetric>>(options()), "b.jsonl");
  CHECK_FALSE(test::contains(none, "accuracy"));
  CHECK_FALSE(test::contains(none, "metric"));
  CHECK(logged(std::make_unique<Measured<NoMetric>>(options()), "b.csv")
            .starts_with("kind,step,epoch,samples,loss,learning_rate,"));
  StepLog two{folder.file("c.csv")};
  Measured<Accuracy> trainer{options()};
  two.evaluation(trainer.position(), trainer.evaluate(training));
  CHECK(test::contains(
      test::message<ContractError>([&] { Measured<NoMetric>{options()}.train(training, 0, two); }),
      "StepLog: the metrics are not those of the lines before, which are the columns of a .csv"));
}

static_assert(std::string_view{TopK<1>::name} == "top-1 accuracy");
static_assert(std::string_view{TopK<120>::name} == "top-120 accuracy");

// What protocol buffers of events have, read strictly: what is not of such a record is refused.
struct EventScalars {
  double time = 0.0;
  std::int64_t step = 0;
  std::string version{};
  std::vector<std::pair<std::string, float>> scalars{};
};

class EventReader {
 public:
  explicit EventReader(std::string_view bytes) : rest_{bytes} {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  std::uint64_t word(std::size_t size) {
    std::uint64_t value = 0;
    std::string_view const bytes = take(size);
    for (std::size_t i = size; i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return value;
  }
  std::string_view take(std::size_t size) {
    REQUIRE(size <= rest_.size());
    std::string_view const bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      std::uint64_t const byte = word(1);
      value |= (byte & 0x7FU) << shift;
      if (byte < 0x80U) {
        return value;
      }
    }
  }
  std::string_view text() { return take(static_cast<std::size_t>(varint())); }
  std::string_view record() {
    auto const sum = [](std::string_view bytes) {
      return std::rotr(crc32c(test::bytes(bytes)), 15) + 0xA282EAD8U;
    };
    std::string_view const length = rest_.substr(0, 8);
    auto const size = static_cast<std::size_t>(word(8));
    REQUIRE(word(4) == sum(length));
    std::string_view const data = take(size);
    REQUIRE(word(4) == sum(data));
    return data;
  }

 private:
  std::string_view rest_;
};

std::pair<std::string, float> read_scalar(std::string_view bytes) {
  EventReader value{bytes};
  REQUIRE(value.varint() == (1U << 3 | 2U));
  std::string const name{value.text()};
  REQUIRE(value.varint() == (2U << 3 | 5U));
  auto const number = std::bit_cast<float>(static_cast<std::uint32_t>(value.word(4)));
  REQUIRE(value.at_end());
  return {name, number};
}

std::vector<EventScalars> read_events(std::string const& bytes) {
  std::vector<EventScalars> events;
  for (EventReader file{bytes}; !file.at_end();) {
    EventScalars event;
    EventReader fields{file.record()};
    REQUIRE(fields.varint() == (1U << 3 | 1U));
    event.time = std::bit_cast<double>(fields.word(8));
    while (!fields.at_end()) {
      std::uint64_t const key = fields.varint();
      if (key == (2U << 3)) {
        event.step = static_cast<std::int64_t>(fields.varint());
      } else if (key == (3U << 3 | 2U)) {
        event.version = fields.text();
      } else {
        REQUIRE(key == (5U << 3 | 2U));
        EventReader summary{fields.text()};
        while (!summary.at_end()) {
          REQUIRE(summary.varint() == (1U << 3 | 2U));
          event.scalars.push_back(read_scalar(summary.text()));
        }
      }
    }
    events.push_back(event);
  }
  return events;
}

std::string scalar_event(double time, std::int64_t step,
                         std::initializer_list<std::pair<char const*, double>> scalars) {
  detail::ProtocolBuffer all;
  for (auto const& [name, value] : scalars) {
    detail::add_scalar(all, name, value);
  }
  return detail::scalar_event(time, step, all);
}

TEST_CASE("records of scalars are the bytes that TensorBoard's own package writes") {
  double const infinity = std::numeric_limits<double>::infinity();
  std::string const name(200, 'x');
  std::string const bytes =  // test/golden/events.py
      detail::first_event(1763900000.0) +
      scalar_event(1763900000.25, 1,
                   {{"loss/train", 2.302585},
                    {"metric/train", 0.125},
                    {"learning_rate", 0.1},
                    {"gradient_norm", 0.0}}) +
      scalar_event(1763900001.5, 300,
                   {{"loss/train", std::nan("")}, {"samples_per_second", 123456.789}}) +
      scalar_event(1763900002.0, 0, {{"loss/evaluation", -1e-30}}) +
      scalar_event(1763900003.0, std::int64_t{1} << 40, {{name.c_str(), infinity}});
  CHECK(bytes == test::content(TANDEM_TEST_DATA "/events.tfevents"));
  std::vector<EventScalars> const events = read_events(bytes);
  REQUIRE(events.size() == 5);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[1].time == 1763900000.25);
  CHECK(events[1].scalars[2] == std::pair{std::string{"learning_rate"}, 0.1F});
  CHECK(events[2].step == 300);
  CHECK(events[4].scalars[0] == std::pair{name, std::numeric_limits<float>::infinity()});
}

TEST_CASE("an event log has a record for each step that it is asked for") {
  test::TemporaryFolder const folder;
  std::string const runs = folder.file("runs/a");
  Single trainer{options()};
  std::vector<StepReport> seen;
  EventLog all{runs};
  EventLog some{runs, {.every = 3}};
  CHECK(all.path() != some.path());  // begun in one second, or not
  CHECK(all.path().starts_with(runs + "/events.out.tfevents."));
  for (Epoch const epoch : epochs(2)) {
    trainer.train(training, epoch, all, some,
                  [&](StepReport const& report) { seen.push_back(report); });
  }
  Evaluation const evaluation = trainer.evaluate(training);
  all.evaluation(trainer.position(), evaluation);

  std::vector<EventScalars> const events = read_events(test::content(all.path()));
  REQUIRE(events.size() == 1 + seen.size() + 1);
  for (std::size_t s = 0; s < seen.size(); ++s) {
    EventScalars const& event = events[s + 1];
    CHECK(event.time >= events[s].time);
    CHECK(event.step == seen[s].step);
    REQUIRE(event.scalars.size() == 5);
    CHECK(event.scalars[0] ==
          std::pair{std::string{"loss/train"}, static_cast<float>(seen[s].loss)});
    CHECK(event.scalars[1] ==
          std::pair{std::string{"accuracy/train"}, static_cast<float>(seen[s].metric)});
    CHECK(event.scalars[2].second == static_cast<float>(seen[s].learning_rate));
    CHECK(event.scalars[3].second == static_cast<float>(seen[s].gradient_norm));
    CHECK(event.scalars[4].first == "samples_per_second");
    double const before = seen[s].step % 4 == 1 ? 0.0 : seen[s - 1].seconds;
    CHECK(event.scalars[4].second ==
          static_cast<float>(seen[s].batch / (seen[s].seconds - before)));
  }
  CHECK(events.back().step == 8);
  CHECK(events.back().scalars[0] ==
        std::pair{std::string{"loss/evaluation"}, static_cast<float>(evaluation.loss)});
  CHECK(events.back().scalars[1] ==
        std::pair{std::string{"accuracy/evaluation"}, static_cast<float>(evaluation.accuracy)});
  std::vector<EventScalars> const third = read_events(test::content(some.path()));
  REQUIRE(third.size() == 3);
  CHECK(third[1].step == 3);
  CHECK(third[1].scalars[4].second == static_cast<float>(24 / seen[2].seconds));
  CHECK(third[2].step == 6);  // of the second call, whose clock began anew
  CHECK(third[2].scalars[4].second == static_cast<float>(16 / seen[5].seconds));

  StepReport unclipped = seen[0];
  unclipped.gradient_norm = 0.0;
  all(unclipped);
  CHECK(read_events(test::content(all.path())).back().scalars.size() == 4);
  unclipped.epoch = 1;  // whose first step takes longer than all of the epoch before
  unclipped.seconds *= 2.0;
  all(unclipped);
  CHECK(read_events(test::content(all.path())).back().scalars[3].second ==
        static_cast<float>(unclipped.batch / unclipped.seconds));
  test::put(folder.file("taken"), "");
  CHECK(test::contains(test::message<FileError>([&] { EventLog{folder.file("taken/run")}; }),
                       "the log cannot be written: Not a directory"));
  CHECK(test::contains(test::message<ContractError>([] { EventLog{""}; }), "name of a folder"));
}

TEST_CASE("a plateau is more than so many figures in a row that are no better than the best") {
  std::int64_t step = 0;
  PlateauState state;
  PlateauState of_rises;
  Plateau plateau{state, step, {.patience = 1, .least = 0.1}};
  auto const next = [&](Plateau& own, double figure) {
    ++step;
    bool const stalled = own(figure);
    CHECK(own.stalled() == stalled);
    CHECK_FALSE(own(figure - 1.0));  // of the same step: left out
    CHECK_FALSE(own.improved());
    CHECK(own.stalled() == stalled);
    return stalled;
  };
  CHECK(plateau.best() == std::numeric_limits<double>::infinity());
  CHECK_FALSE(plateau(1.0));
  CHECK(plateau.improved());
  CHECK_FALSE(next(plateau, 0.95));  // too little better
  ++step;
  CHECK_FALSE(plateau(0.8));
  CHECK(plateau.improved());
  CHECK(plateau.best() == 0.8);
  CHECK_FALSE(next(plateau, 0.9));
  CHECK(next(plateau, std::nan("")));
  CHECK_FALSE(next(plateau, 0.9));  // counted anew
  CHECK(next(plateau, 0.9));
  Plateau rises{of_rises, step, {.patience = 0, .falls = false}};
  CHECK(rises.best() == -std::numeric_limits<double>::infinity());
  CHECK_FALSE(next(rises, 0.5));
  CHECK_FALSE(next(rises, 0.6));
  CHECK(next(rises, 0.6));
  CHECK(rises.best() == 0.6);
  CHECK(next(rises, 0.6));
  CHECK(test::contains(test::message<ContractError>([&] {
                         Plateau{state, step, {.patience = -1}};
                       }),
                       "patience must be 0 or more"));
  Single trainer{options()};
  for (int plateaus = 0; plateaus < 4; ++plateaus) {
    static_cast<void>(trainer.plateau());
  }
  CHECK(test::contains(test::message<ContractError>([&] { static_cast<void>(trainer.plateau()); }),
                       "plateau(): a trainer has at most 4, which its checkpoints keep"));
}

struct Crash {};

/// The loop of docs/training.md in a program that ends after @p events steps and evaluations, each
/// of which also lowers the rate where the loss has not fallen enough. @returns how many there were
int early_stopping(test::TemporaryFolder const& folder, int events) {
  TrainerOptions own = options();
  own.optimizer = Sgd{.learning_rate = 0.05F, .momentum = 0.9F};
  own.schedule = {};
  own.checkpoints = {.folder = folder.file("run"), .every_steps = 5};  // of 20, the last one, too
  Single trainer{own};
  trainer.resume();
  int done = 0;
  auto const happens = [&](auto const&...) {
    if (done++ == events) {
      trainer.await_checkpoint();
      throw Crash{};
    }
  };
  StepLog log{folder.file("run.jsonl"), {.append = true}};
  Plateau plateau = trainer.plateau({.patience = 1, .least = 0.025});
  Plateau slow = trainer.plateau({.patience = 0, .least = 10.0});
  for (auto epoch : trainer.epochs(12)) {
    if (plateau.stalled()) {
      break;
    }
    trainer.train(training, epoch, log, happens);
    Evaluation const result = trainer.evaluate(training);
    happens();
    log.evaluation(trainer.position(), result);
    happens();
    plateau(result.loss);
    if (plateau.improved()) {
      trainer.save(folder.file("best"));
    }
    if (slow(result.loss)) {
      trainer.set_learning_rate(0.5 * trainer.learning_rate());
    }
  }
  trainer.save_in(folder.file("run"));
  trainer.save(folder.file("last"));
  return done;
}

TEST_CASE("a run that stops early decides and logs the same, wherever it was interrupted") {
  test::TemporaryFolder const whole;
  int const events = early_stopping(whole, -1);
  Single stopped{options()};
  stopped.load(whole.file("last"));
  std::int64_t const epochs_done = stopped.position().epoch;
  CHECK(epochs_done == 5);  // of which the first and the third were better
  CHECK(stopped.position().learning_rate == doctest::Approx(0.05 / 16));
  CHECK(stopped.position().plateaus[0].waited == 2.0);
  CHECK(std::ssize(lines_of(whole.file("run.jsonl"))) == 5 * epochs_done);
  for (int end = 0; end < events; ++end) {
    CAPTURE(end);
    test::TemporaryFolder const folder;
    CHECK_THROWS_AS(early_stopping(folder, end), Crash);
    early_stopping(folder, -1);
    CHECK(lines_of(folder.file("run.jsonl")) == lines_of(whole.file("run.jsonl")));
    CHECK(test::content(folder.file("best")) == test::content(whole.file("best")));
    CHECK(test::content(folder.file("last")) == test::content(whole.file("last")));
  }
  CHECK(early_stopping(whole, -1) == 0);  // a run that has ended is not trained on
  Single again{options()};
  again.load(whole.file("last"));
  CHECK(again.position().step == stopped.position().step);
}

TEST_CASE("a loop over all epochs after load() counts no figure twice") {
  test::TemporaryFolder const folder;
  Single trainer{options()};
  Plateau plateau = trainer.plateau({.patience = 1});
  for (auto epoch : epochs(3)) {
    trainer.train(training, epoch);
    CHECK_FALSE(plateau(1.0 - static_cast<double>(epoch.index)));
  }
  trainer.save(folder.file("run"));
  Single resumed{options()};
  Plateau own = resumed.plateau({.patience = 1});
  resumed.load(folder.file("run"));
  CHECK(own.best() == -1.0);
  for (auto epoch : epochs(5)) {
    resumed.train(training, epoch);
    CHECK(own(-1.0) == (epoch.index == 4));
    CHECK_FALSE(own.improved());
  }
}

TEST_CASE("the epochs that are left") {
  test::TemporaryFolder const folder;
  Single trainer{options()};
  auto const left = [](Single& own, std::int64_t count) {
    std::vector<std::int64_t> indices;
    for (auto epoch : own.epochs(count)) {
      CHECK(epoch.total == count);
      indices.push_back(epoch.index);
    }
    return indices;
  };
  CHECK(left(trainer, 3) == std::vector<std::int64_t>{0, 1, 2});
  for (auto epoch : epochs(2)) {
    trainer.train(training, epoch);
  }
  for (auto epoch : epochs(1)) {
    trainer.train(training, epoch);
  }
  CHECK(left(trainer, 5) == std::vector<std::int64_t>{3, 4});
  for (auto epoch : trainer.epochs(5)) {  // of the whole run, whatever loops there were before
    CHECK(trainer
              .train(training, epoch,
                     [](StepReport const& report) {
                       return report.step == 18 ? AfterStep::stop : AfterStep::go_on;
                     })
              .steps > 0);
    CHECK(trainer.position().epoch == std::min<std::int64_t>(epoch.index + 1, 4));
  }
  CHECK(left(trainer, 5) == std::vector<std::int64_t>{4});  // stopped after its second step
  trainer.save(folder.file("run"));
  Single resumed{options()};
  resumed.load(folder.file("run"));
  CHECK(left(resumed, 5) == std::vector<std::int64_t>{4});
  CHECK(left(resumed, 4).empty());
  CHECK(left(resumed, 0).empty());
  for (auto epoch : resumed.epochs(6)) {
    CHECK(resumed.train(training, epoch).steps == (epoch.index == 4 ? 2 : 4));
  }
  CHECK(resumed.position().epoch == 6);
  CHECK(test::message<ContractError>([&] { static_cast<void>(resumed.epochs(-1)); }) ==
        "epochs(count): count must be 0 or more");
}

TEST_CASE("a checkpoint whose plateaus cannot have been counted is refused") {
  test::TemporaryFolder const folder;
  Single trainer{options()};
  Plateau plateau = trainer.plateau();
  trainer.save(folder.file("none"));
  CHECK(Safetensors::read(folder.file("none")).find("tandem.plateaus") == nullptr);
  plateau(0.5);
  trainer.save(folder.file("one"));
  auto file = Safetensors::read(folder.file("one"));
  std::vector<TensorView> tensors = file.tensors();
  auto const own = std::ranges::find(tensors, "tandem.plateaus", &TensorView::name);
  REQUIRE(own != tensors.end());
  CHECK(own->shape == std::vector<std::int64_t>{4, 3});
  for (double const bad : {-2.0, 1e300, std::nan("")}) {
    for (std::size_t const at : {1, 2}) {
      double numbers[12] = {};
      numbers[at] = bad;
      own->data = std::as_bytes(std::span{numbers});
      write_safetensors(folder.file("bad"), tensors, with_checksums(tensors, {}));
      CHECK(test::contains(
          test::message<FileError>([&] { trainer.load(folder.file("bad")); }),
          "tandem.plateaus has a number that no Plateau counts; the file is corrupt"));
    }
  }
  CHECK(plateau.best() == 0.5);
}

static_assert(StepWatcher<StepLog>);
static_assert(StepWatcher<EventLog>);
static_assert(StepWatcher<decltype([](StepReport const&) {})>);
static_assert(!StepWatcher<decltype([](StepReport const&) { return 1; })>, "neither on nor stop");
static_assert(!StepWatcher<decltype([](int&) {})>);

}  // namespace watch_test
}  // namespace tandem
