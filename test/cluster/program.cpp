// SPDX-License-Identifier: Apache-2.0
// Trains a small network from the newest checkpoint on, and fails where it is told to.
//   program STRATEGY FOLDER [FAULT PROCESS PLACE CALL]
// FAULT is kill, stop, throw, exit (_exit), quit (std::exit), leave (it returns from main, with all
// in order), term, slow or none; PLACE is forward, backward, data, step, world (before its Trainer)
// or start (before MPI); CALL counts what comes there. FAULT option gives the process another
// option, which PLACE names; FAULT call lets it make the call that PLACE names before the CALLth
// epoch, or train() another way, or stop train() at a step. It prints the state that it ends with,
// or why it ends, and does so by run()'s exit codes. What the rig must know beside that it writes
// to the file TANDEM_RIG_NOTES, a line each: "begin PROCESS PID", "fault PROCESS NANOSECONDS" of
// CLOCK_MONOTONIC, "training PROCESS 0", "end PROCESS STATUS".

#include <tandem/mpi.hpp>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

namespace td = tandem;

namespace {

int own_process = 0;

/// Also of a process that is about to end.
void note(char const* what, long long number) noexcept {
  char const* const path = std::getenv("TANDEM_RIG_NOTES");
  int const file = path != nullptr ? ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
  if (file >= 0) {
    char line[64];
    int const size = std::snprintf(line, sizeof line, "%s %d %lld\n", what, own_process, number);
    [[maybe_unused]] auto const wrote = ::write(file, line, static_cast<std::size_t>(size));
    ::close(file);
  }
}

long long nanoseconds() {
  ::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return 1'000'000'000LL * now.tv_sec + now.tv_nsec;
}

/// What this process is to do, and where; nothing in all processes but one.
struct Fault {
  std::string what = "none";
  std::string place{};
  int process = -1;
  int call = 0;
  std::atomic<int> calls = 0;

  /// @param own  -1: whoever asks is not yet known to MPI
  /// @returns whether the program itself is to do it now
  bool at(std::string_view here, int own) {
    if (what == "none" || place != here || (own >= 0 && own != process) || ++calls < call) {
      return false;
    }
    if (what == "slow") {
      std::this_thread::sleep_for(std::chrono::milliseconds{calls < call + 4 ? 300 : 0});
      return false;
    }
    if (calls > call) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{600});  // a sign of life says where
    note("fault", nanoseconds());
    if (what == "term") {
      ::raise(SIGTERM);
    } else if (what == "kill") {
      ::raise(SIGKILL);
    } else if (what == "stop") {
      ::raise(SIGSTOP);
    } else if (what == "exit") {
      ::_exit(0);
    } else if (what == "quit") {
      std::exit(0);
    } else if (what == "throw") {
      throw std::runtime_error{"the fuse has blown"};
    }
    return what == "leave" || what == "option" || what == "call";
  }
};
Fault fault;

/// Passes on what it gets, unless the fault is there.
struct Fuse {
  static constexpr std::string_view name = "Fuse";
  static constexpr td::Shape output(td::Shape in) { return in; }
  static void forward(auto const& call) {
    fault.at("forward", own_process);
    std::ranges::copy(call.x, call.y.begin());
  }
  static void input_gradient(auto const& call) {
    fault.at("backward", own_process);
    std::ranges::copy(call.dy, call.dx.begin());
  }
};

/// A fuse in each of four stages.
struct Net
    : td::Network<
          td::Image<3, 6, 6>,
          td::Sequential<td::Conv2d<4, td::Kernel<3>>, Fuse, td::Conv2d<6, td::Kernel<3>>, Fuse,
                         td::Flatten, td::Linear<8>, Fuse, td::ReLU, td::Linear<5>, Fuse>> {};

class Data {
 public:
  using Target = std::int32_t;

  std::int64_t size() const { return samples; }
  td::Shape shape() const { return td::image_shape(3, 6, 6); }
  int targets() const { return 1; }
  void read(std::int64_t index, std::span<float> x, std::span<Target> y) const {
    fault.at("data", own_process);
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] =
          td::uniform(td::philox(7, td::RandomUse::user, std::uint64_t(index), i).word[0]) - 0.5F;
    }
    y[0] = static_cast<Target>(index % 5);
  }

  std::int64_t samples = 40;
};

using Options = td::TrainerOptions;

/// What one process alone has; the last four change no number.
std::map<std::string, void (*)(Options&)> const other_options{
    {"batch", [](Options& o) { o.batch = 16; }},
    {"optimizer", [](Options& o) { o.optimizer = td::Adam{}; }},
    {"optimizer.learning_rate",
     [](Options& o) { std::get<td::Sgd>(o.optimizer).learning_rate = 0.1F; }},
    {"optimizer.momentum", [](Options& o) { std::get<td::Sgd>(o.optimizer).momentum = 0.0F; }},
    {"schedule", [](Options& o) { o.schedule = td::Cosine{.steps = 15}; }},
    {"clip_norm", [](Options& o) { o.clip_norm = 2.0; }},
    {"clip_value", [](Options& o) { o.clip_value = 2.0; }},
    {"loss_scaling.initial", [](Options& o) { o.loss_scaling = {.initial = 1024.0}; }},
    {"groups", [](Options& o) { o.groups = {{.pattern = "*"}}; }},
    {"average.decay", [](Options& o) { o.average.decay = 0.5; }},
    {"seed", [](Options& o) { o.seed = 9; }},
    {"shuffle", [](Options& o) { o.shuffle = false; }},
    {"drop_last", [](Options& o) { o.drop_last = true; }},
    {"checkpoints", [](Options& o) { o.checkpoints = {}; }},
    {"checkpoints.every_steps", [](Options& o) { o.checkpoints.every_steps = 3; }},
    {"checkpoints.on_signals", [](Options& o) { o.checkpoints.on_signals = true; }},
    {"checkpoints.keep", [](Options& o) { o.checkpoints.keep = 1; }},
    {"threads_per_device", [](Options& o) { o.threads_per_device = 2; }},
    {"loader_threads", [](Options& o) { o.loader_threads = 2; }},
    {"timeout", [](Options& o) { o.timeout += std::chrono::seconds{1}; }}};

/// What one process alone asks of its trainer, or is to ask of train() itself.
void call_alone(auto& trainer, std::string const& path, Data& data, td::Epoch& epoch) {
  std::string const& call = fault.place;
  if (call == "save()") {
    trainer.save(path);
  } else if (call == "save_in()") {
    trainer.save_in(path);
  } else if (call == "load()") {
    trainer.load(path);
  } else if (call == "resume()") {
    trainer.resume();
  } else if (call == "evaluate()") {
    trainer.evaluate(data);
  } else if (call == "predict()") {
    trainer.predict(data);
  } else if (call == "the learning rate") {
    trainer.set_learning_rate(0.25);
  } else if (call == "the number of samples") {
    data.samples = 39;
  } else if (call == "the epoch of the call") {
    epoch.index = 7;
  }
}

template <class Strategy>
void train(td::World const& world, std::string const& folder) {
  Options options{
      .batch = 8,
      .optimizer = td::Sgd{.learning_rate = 0.05F, .momentum = 0.9F},
      .threads_per_device = 1,
      .timeout = std::chrono::seconds{2},
      .checkpoints = {.folder = folder, .every_steps = 2, .on_signals = fault.what == "term"},
      .world = world};
  if (fault.what == "option" && fault.place != "strategy" && fault.at(fault.place, world.process)) {
    other_options.at(fault.place)(options);
  }
  td::Trainer<Net, Strategy, td::OverMpi<td::BasicHost<td::Portable>>> trainer{options};
  trainer.resume();
  char const* const slowly = std::getenv("TANDEM_RIG_STEP_MS");
  bool leaves = false;
  for (auto epoch : td::epochs(3)) {
    Data data;
    if (fault.what == "call" && fault.place != "step" && fault.at(fault.place, world.process)) {
      call_alone(trainer, folder + "/alone", data, epoch);
    }
    trainer.train(data, epoch, [&](td::StepReport const& report) {
      if (report.step == 2 && world.process == 0) {
        note("training", 0);
      }
      bool const stops = fault.at("step", world.process);
      leaves = stops && fault.what == "leave";
      std::this_thread::sleep_for(
          std::chrono::milliseconds{slowly != nullptr ? std::atoi(slowly) : 0});
      return stops ? td::AfterStep::stop : td::AfterStep::go_on;
    });
    if (leaves) {
      return;
    }
  }
  std::uint64_t hash = 0;
  for (auto const& parameter : trainer.parameters()) {
    for (float const value : parameter.value) {
      hash = 31 * hash + std::bit_cast<std::uint32_t>(value);
    }
  }
  std::printf("state %016llx\n", static_cast<unsigned long long>(hash));
}

/// What this process connects from now on begins in a network of the rig's, which it can cut: MPI
/// is connected already.
void enter_network() {
  std::string const name = "TANDEM_RIG_NETWORK_" + std::to_string(own_process);
  char const* const path = std::getenv(name.c_str());
  if (path != nullptr) {
    int const network = ::open(path, O_RDONLY | O_CLOEXEC);
    if (network < 0 || ::setns(network, CLONE_NEWNET) != 0) {
      throw std::runtime_error{"the rig's network cannot be entered"};
    }
    ::close(network);
  }
}

std::string innermost(std::exception const& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (std::exception const& cause) {
    return innermost(cause);
  }
  return error.what();
}

}  // namespace

/// Instead of the library's, where ranks do not return.
extern "C" void _Exit(int status) noexcept {
  note("end", status);
  for (;;) {
    ::syscall(SYS_exit_group, status);
  }
}

int main(int argc, char** argv) try {
  char const* number = std::getenv("OMPI_COMM_WORLD_RANK");
  number = number != nullptr ? number : std::getenv("PMI_RANK");  // of MPICH
  own_process = number != nullptr ? std::atoi(number) : 0;
  ::on_exit([](int status, void*) { note("end", status); }, nullptr);
  note("begin", ::getpid());
  std::string const strategy = argc > 1 ? argv[1] : "data";
  std::string const folder = argc > 2 ? argv[2] : "checkpoints";
  if (argc > 6) {
    fault.what = argv[3];
    fault.process = std::atoi(argv[4]);
    fault.place = argv[5];
    fault.call = std::atoi(argv[6]);
  }
  fault.at("start", own_process);
  td::World const world = td::mpi_world({.start_timeout = std::chrono::seconds{6}});
  ::on_exit([](int status, void*) { note("end", status); }, nullptr);  // before MPI is ended
  enter_network();
  fault.at("world", world.process);
  if ((strategy == "data") != fault.at("strategy", world.process)) {
    train<td::DataParallel<4, td::Reproducible<>>>(world, folder);
  } else {
    train<td::Pipeline<td::OneFOneB, 4, td::Split<2>, td::Split<2>, td::Split<3>, td::Split<3>>>(
        world, folder);
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "process %d: %s\n", own_process, innermost(error).c_str());
  return static_cast<int>(td::exit_code_of(error));
}
