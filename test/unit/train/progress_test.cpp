// SPDX-License-Identifier: Apache-2.0

#include <tandem/train/progress.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <tandem/tandem.hpp>

#include <support/temporary_folder.hpp>
#include <tiny_network.hpp>

namespace tandem {
namespace progress_test {

/// What @p call writes to standard error, which is @p descriptor meanwhile.
template <class Call>
void with_standard_error(int descriptor, Call const& call) {
  std::fflush(stderr);
  int const before = ::dup(STDERR_FILENO);
  REQUIRE(before >= 0);
  REQUIRE(::dup2(descriptor, STDERR_FILENO) == STDERR_FILENO);
  call();
  std::fflush(stderr);
  REQUIRE(::dup2(before, STDERR_FILENO) == STDERR_FILENO);
  ::close(before);
}

template <class Call>
std::string standard_error(Call const& call) {
  test::TemporaryFolder const folder;
  std::string const path = folder.file("stderr");
  int const file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(file >= 0);
  with_standard_error(file, call);
  ::close(file);
  return test::content(path);
}

/// The same with a pseudo-terminal; "(no terminal)" where the system gives none.
template <class Call>
std::string terminal(Call const& call) {
  int const master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) {
    return "(no terminal)";
  }
  int const slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  if (slave < 0) {
    ::close(master);
    return "(no terminal)";
  }
  with_standard_error(slave, call);
  std::string text;
  char part[4096];
  while (text.find('\n') == std::string::npos) {  // a terminal may hand it over in pieces
    ssize_t const size = ::read(master, part, sizeof part);
    if (size <= 0) {
      break;
    }
    text.append(part, static_cast<std::size_t>(size));
  }
  ::close(slave);
  ::close(master);
  return text;
}

using Plain = Trainer<test::PlainNet, SingleDevice<>, Host>;
auto const data = test::dataset(image_shape(1, 4, 4), 3, 20);

TEST_CASE("a schedule that ends before the run is told once, before the first step") {
  test::Samples<float> const samples{image_shape(1, 4, 4), 3, 8};
  auto const told = [&](Schedule const& schedule, std::int64_t loop, int steps) {
    Plain trainer{{.batch = 8,  // 3 steps an epoch
                   .schedule = schedule,
                   .threads_per_device = 1}};
    return standard_error([&] {
      for (auto epoch : epochs(loop)) {
        trainer.train(data, epoch, [](StepReport const& report) { CHECK(report.step > 0); });
      }
      for (int step = 0; step < steps; ++step) {
        trainer.step(samples.x, samples.y);
      }
    });
  };
  auto const sentence = [](std::string const& end, std::string const& steps) {
    return "tandem: the schedule of the learning rate ends after " + end +
           " steps, and this run asks for " + steps +
           ": from there on the rate stays as it is; give the schedule all steps of the run, "
           "epochs times steps an epoch\n";
  };
  CHECK(told(Cosine{.steps = 6}, 2, 0) == "");
  CHECK(told(Cosine{.steps = 5}, 2, 0) == sentence("5", "6"));
  CHECK(told(OneCycle{.steps = 6}, 2, 3) == sentence("6", "7"));
  CHECK(told({Polynomial{.steps = 4}, 2}, 2, 0) == "");
  CHECK(told({Polynomial{.steps = 4}, 2}, 4, 2) == sentence("6", "12"));
  CHECK(told(Cosine{.steps = 2}, 0, 2) == "");
  CHECK(told(Cosine{.steps = 2}, 0, 4) == sentence("2", "3"));
  CHECK(told({Constant{}, 2}, 3, 0) == "");
  CHECK(told(Halvings{.begin = 1, .every = 1}, 3, 0) == "");
  CHECK(told(StepDecay{}, 3, 0) == "");
  CHECK(told([](std::int64_t) { return 1.0; }, 3, 0) == "");

  Plain trainer{{.batch = 8, .schedule = Cosine{.steps = 5}, .threads_per_device = 1}};
  std::string const first = standard_error([&] {  // told while there is time to mend it
    trainer.train(data, Epoch{0, 2}, [](StepReport const&) { return AfterStep::stop; });
  });
  CHECK(first == sentence("5", "6"));
}

TEST_CASE("a program whose cores others take is told how its threads wait without spinning") {
  using host::BusyCores;
  CHECK(BusyCores::advice(400, 2.0, true) ==
        "other programs took a core from this one 200 times a second, and OpenMP's threads spin "
        "while they wait for it: start this one with OMP_WAIT_POLICY=passive\n");
  CHECK(BusyCores::advice(400, 2.0, false) == "");
  CHECK(BusyCores::advice(400, 0.9, true) == "");
  CHECK(BusyCores::advice(98, 2.0, true) == "");
  CHECK(BusyCores::advice(0, 0.0, true) == "");
}

TEST_CASE("without a terminal: one plain line an epoch") {
  Plain trainer{{.batch = 8, .threads_per_device = 1}};
  std::string const text = standard_error([&] {
    for (auto epoch : epochs(2)) {
      trainer.train(data, epoch, Progress{});
    }
  });
#if defined(TANDEM_ONEDNN)
  CHECK(text.starts_with("computes with oneDNN "));
#else
  CHECK(text.starts_with("computes with portable kernels\n"));
#endif
  CHECK(test::contains(text, "\nepoch 1/2  20/20 samples  loss "));
  CHECK(test::contains(text, "\nepoch 2/2  20/20 samples  loss "));
  CHECK(test::contains(text, "  accuracy 0."));
  CHECK(text.ends_with(" samples/s\n"));
  CHECK(std::ranges::count(text, '\n') == 3);
  CHECK(text.find_first_of("\r\033") == std::string::npos);

  std::string const alone = standard_error([&] { trainer.train(data, 2, Progress{}); });
  CHECK(alone.starts_with("epoch 3  20/20 samples"));
  std::string const again = standard_error([&] { trainer.train(data, 1, Progress{}); });
  CHECK(again.starts_with("epoch 2  20/20 samples"));
}

TEST_CASE("after load(): a line for each epoch that was trained before") {
  test::TemporaryFolder const folder;
  Plain trainer{{.batch = 8, .threads_per_device = 1}};
  trainer.train(data, 0);
  trainer.save(folder.file("x"));
  trainer.load(folder.file("x"));
  std::string const text = standard_error([&] {
    for (auto epoch : epochs(2)) {
      trainer.train(data, epoch, Progress{});
    }
  });
  CHECK(test::contains(text, "\nepoch 1/2  trained before\nepoch 2/2  20/20 samples  loss "));
}

TEST_CASE("silent prints nothing") {
  Plain trainer{{.batch = 8, .threads_per_device = 1}};
  CHECK(standard_error([&] {
          trainer.train(data, 0, Progress::none());
          trainer.train(data, 1, Progress{.silent = true});
          trainer.train(data, 2);
        }).empty());
}

TEST_CASE("on a terminal: one live line, rewritten in place") {
  std::string const text = terminal([] {
    ProgressLine line{Progress{}, Epoch{0, 3}, 100};
    line.step({.loss = 2.0, .samples = 10});
    line.step({.loss = 1.0, .samples = 20});  // within a tenth of a second: not shown
    line.finish({.loss = 0.5, .samples = 100});
  });
  if (text == "(no terminal)") {
    MESSAGE("skipped: the system gives no pseudo-terminal");
    return;
  }
  CHECK(test::contains(text, "\repoch 1/3  10/100 samples  loss 2.0000"));
  CHECK(test::contains(text, "\repoch 1/3  100/100 samples  loss 0.5000"));
  CHECK(std::ranges::count(text, '\n') == 1);
  CHECK(test::contains(text, "\033[K"));
}

}  // namespace progress_test
}  // namespace tandem
