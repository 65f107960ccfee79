// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pair: a strategy, what it is compared with, and how both train; run_pairs() is the main program
/// of what program.py writes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>

#include <support/memory_check/memory_check.hpp>
#include <support/watchdog.hpp>

#include "comparison.hpp"
#include "contender.hpp"
#include "processes.hpp"

namespace tandem::fuzz {

namespace detail {

template <class T>
class PairRun {
 public:
  PairRun(std::vector<Entry<T>> const& entries, Task const& task, Pair const& pair, Runs<T>& runs)
      : one_{entries[static_cast<std::size_t>(pair.one)]},
        many_{entries[static_cast<std::size_t>(pair.many)]},
        task_{task},
        pair_{pair},
        runs_{runs} {
    task_.sliced = many_.pieces != one_.pieces || many_.chunks != one_.chunks;
  }

  /// "" if the two agree; else what differs. All processes of `many` call it.
  std::string run() { return pair_.twins ? run_twins() : run_two(); }

  /// Of all numbers that a run of `many` gave.
  [[nodiscard]] std::uint64_t bits() const { return bits_.hash(); }

 private:
  std::string run_two() {
    TrainerOptions own = options_of(pair_);
    own.world = world_of_many();
    if (*pair_.rows != '\0') {
      own.rows = read_table_csv(pair_.rows, "rows").rows;
    }
    auto const contender = many_.make(own, pair_.microbatches);
    std::string why = check_memory(*contender);
    bool const only_trains = one_.is_equation;
    Outcome<T> const got = train<T>(*contender, pair_, task_, only_trains, path("many"), 0, true);
    Outcome<T> const& wanted = pair_.alone ? got : reference(0.0);
    add(bits_, got);
    why = why.empty() ? differ(got, wanted) : why;
    for (int replica = 0; replica < replicas_here() && why.empty(); ++replica) {
      for (int copy = 0; copy < (pair_.alone ? 1 : many_.copies) && why.empty(); ++copy) {
        why = differ_in_values(values_of<T>(contender->parameters(replica, copy)), wanted);
        why = why.empty() ? why
                          : "replica " + std::to_string(replica) + ", copy " +
                                std::to_string(copy) + ": " + why;
      }
    }
    if (why.empty() && writes_again()) {
      Texts const some = data_of(task_, 1, pair_.options.seed, 9).texts;
      why = contender->check_written({some.tokens.begin(), some.tokens.begin() + some.lengths[0]});
    }
    if (why.empty() && pair_.saved > 0 && !only_trains) {
      why = pair_.alone ? check_goes_on(own, wanted) : check_resumed(own, wanted);
    }
    if (why.empty()) {
      await_processes();  // which may still read what was saved
    }
    std::filesystem::remove(path("many"));
    std::filesystem::remove(path("one"));
    return why;
  }

  // Both forms of a strategy: the same numbers and files, and each goes on from the other's.
  std::string run_twins() {
    TrainerOptions own = options_of(pair_);
    if (*pair_.rows != '\0') {
      own.rows = read_table_csv(pair_.rows, "rows").rows;
    }
    auto const type = many_.make(own, pair_.microbatches);
    auto const value = one_.make(own, pair_.microbatches);
    std::string why = check_memory(*value);
    for (int device = 0; device < many_.devices && why.empty(); ++device) {
      if (one_.bound(own, device).total() != many_.bound(own, device).total()) {
        why = "device " + std::to_string(device) + " is said to have other memory";
      }
    }
    Outcome<T> const wanted = train<T>(*type, pair_, task_, false, path("many"), 0, true);
    Outcome<T> const got = train<T>(*value, pair_, task_, false, path("one"), 0, true);
    why = why.empty() ? other_bits(got, wanted, 0) : why;
    for (int replica = 0; replica < many_.replicas && why.empty(); ++replica) {
      for (int copy = 0; copy < many_.copies && why.empty(); ++copy) {
        why = difference_of(values_of<T>(value->parameters(replica, copy)),
                            values_of<T>(type->parameters(replica, copy)), Agree::bits, 0.0);
      }
    }
    if (why.empty() && pair_.saved > 0) {
      constexpr std::size_t most = std::size_t{1} << 26U;
      why = read_file(path("one"), most) == read_file(path("many"), most)
                ? check_twin_goes_on(many_, path("one"), own, wanted)
                : "checkpoints have other bytes";
      why = why.empty() ? check_twin_goes_on(one_, path("many"), own, wanted) : why;
    }
    std::filesystem::remove(path("many"));
    std::filesystem::remove(path("one"));
    return why.empty() ? why : "as a value and as a type: " + why;
  }
  std::string check_twin_goes_on(Entry<T> const& entry, std::string const& from,
                                 TrainerOptions const& own, Outcome<T> const& wanted) {
    auto const twin = entry.make(own, pair_.microbatches);
    twin->load(from);
    Outcome<T> const back = train<T>(*twin, pair_, task_, false, "", pair_.saved, true);
    Outcome<T> rest = wanted;
    std::fill_n(rest.steps.begin(), pair_.saved, StepResult{});
    rest.first_predictions.clear();
    std::string const why = other_bits(back, rest, pair_.saved);
    return why.empty() ? why : "loaded from what the other saved: " + why;
  }
  std::string other_bits(Outcome<T> const& got, Outcome<T> const& wanted, int first_step) {
    Pair exact = pair_;
    exact.agree = Agree::bits;
    std::string const why = difference_of(got, wanted, exact, task_, Bound{}, first_step);
    Bits of_one;
    Bits of_many;
    add(of_one, got);
    add(of_many, wanted);
    bool const same = of_one.hash() == of_many.hash();
    return !why.empty() ? why : same ? "" : "an evaluation or a metric has other bits";
  }

  // Whether what it writes is looked at token by token: not in float, where others are as likely,
  // nor on an emulated GPU, whose passes over texts would take minutes.
  [[nodiscard]] bool writes_again() const {
    return task_.input.timed && !task_.labelled && sizeof(T) == 8 && task_.same_kernels;
  }

  [[nodiscard]] World world_of_many() const { return many_.over_processes ? world : World{}; }
  [[nodiscard]] int ranks_here() const {
    return many_.replicas * many_.devices / world_of_many().processes;
  }
  // Where a process has a part of a replica only, all have the first one.
  [[nodiscard]] int replicas_here() const {
    return ranks_here() % many_.devices == 0 ? ranks_here() / many_.devices : 1;
  }

  // What all processes save together, or each for itself.
  [[nodiscard]] std::string path(std::string const& whose) const {
    std::string const own = whose == "many" ? "" : "-" + std::to_string(world.process);
    return std::filesystem::temp_directory_path() /
           ("tandem-fuzz-" + std::to_string(run_number) + own + "-" + whose + ".safetensors");
  }

  Outcome<T> const& reference(double perturbation) {
    std::string const key = key_of(pair_) + " " + std::to_string(perturbation > 0);
    auto const found = runs_.find(key);
    if (found != runs_.end()) {
      return found->second;
    }
    auto const contender = make_one();
    if (perturbation > 0.0) {
      perturb(*contender, perturbation, path("perturbed"));
    }
    Outcome<T> outcome = train<T>(*contender, pair_, task_, one_.is_equation, "");
    return runs_.emplace(key, std::move(outcome)).first->second;
  }
  [[nodiscard]] auto make_one() const {
    TrainerOptions own = options_of(pair_);
    if (!one_.is_equation && !one_.is_late) {
      own.rows = make_schedule("sequential", 1, pair_.microbatches);
    }
    return one_.make(own, pair_.microbatches);
  }

  // What one saved the other continues, and both end where nobody stopped.
  std::string check_resumed(TrainerOptions const& own, Outcome<T> const& wanted) {
    auto const one = make_one();
    one->load(path("many"));
    Outcome<T> const there = train<T>(*one, pair_, task_, false, "", pair_.saved);
    std::string why = differ(there, wanted, pair_.saved);
    if (!why.empty()) {
      return "one device that loads what was saved: " + why;
    }
    auto const before = make_one();
    train<T>(*before, pair_, task_, false, path("one"));
    why = check_loaded(own, wanted, path("one"));
    return why.empty() ? why : "loaded from what one device saved: " + why;
  }
  // The same of what no device alone can do.
  std::string check_goes_on(TrainerOptions const& own, Outcome<T> const& wanted) {
    std::string const why = check_loaded(own, wanted, path("many"));
    return why.empty() ? why : "loaded from what it saved itself: " + why;
  }
  std::string check_loaded(TrainerOptions const& own, Outcome<T> const& wanted,
                           std::string const& from) {
    auto const many = many_.make(own, pair_.microbatches);
    many->load(from);
    Outcome<T> const back = train<T>(*many, pair_, task_, false, "", pair_.saved, true);
    add(bits_, back);
    return differ(back, wanted, pair_.saved);
  }

  // The strategy's own table alone has the bound's number of live microbatches.
  std::string check_memory(Contender<T>& contender) {
    int const ranks = std::min(ranks_here(), many_.devices * many_.slices);
    for (int local = 0; local < ranks && *pair_.rows == '\0'; ++local) {
      if (many_.is_equation) {
        break;
      }
      int const rank = world_of_many().process * ranks_here() + local;
      int const device = rank / many_.slices % many_.devices;
      std::int64_t const most = many_.bound(options_of(pair_), device).total();
      MemoryReport const report = contender.memory(local);
      std::int64_t const tensors = report.total() - report.scratch - report.weights - report.wire -
                                   report.feed - report.tables - report.messages;
      if (tensors > most) {
        return "device " + std::to_string(device) + " has " + std::to_string(tensors) +
               " bytes of tensors, but fits<> says " + std::to_string(most) + " at most";
      }
    }
    return "";
  }

  std::string differ(Outcome<T> const& got, Outcome<T> const& wanted, int first_step = 0) {
    std::string why = difference_of(got, wanted, pair_, task_, least_bound<T>(task_), first_step);
    if (!why.empty() && pair_.agree == Agree::bound) {
      why = difference_of(got, wanted, pair_, task_, bound_of(wanted), first_step);
    }
    return why;
  }
  std::string differ_in_values(Values<T> const& got, Outcome<T> const& wanted) {
    std::string why = difference_of(got, wanted.values, pair_.agree, least_bound<T>(task_).values);
    if (!why.empty() && pair_.agree == Agree::bound) {
      why = difference_of(got, wanted.values, pair_.agree, bound_of(wanted).values);
    }
    return why;
  }

  // By how much a small change of the first parameters moves this network's numbers.
  Bound bound_of(Outcome<T> const& wanted) {
    if (one_.is_equation) {
      return least_bound<T>(task_);
    }
    return bound_from(reference(perturbation_of<T>(task_)), wanted, task_);
  }

  Entry<T> const& one_;
  Entry<T> const& many_;
  Task task_;
  Pair const& pair_;
  Runs<T>& runs_;
  Bits bits_;
};

/// Whether the ranks of @p entry can be dealt to the processes.
template <class T>
bool fits_processes(Entry<T> const& entry) {
  int const ranks = entry.replicas * entry.devices;
  bool const whole = !entry.is_late || ranks / world.processes % entry.devices == 0;
  return world.processes == 1 || (entry.over_processes && ranks % world.processes == 0 && whole);
}

}  // namespace detail

/// Runs the pairs, or number argv[1] of them, if their ranks can be dealt to the processes. Prints
/// a line a pair, and a last one of counts; 1 if any failed. Of programs over processes each prints
/// the bits of each pair, too; and the first failure ends all, since the others would wait for it.
template <class T>
int run_pairs(std::vector<Entry<T>> const& entries, Task const& task,
              std::vector<Pair> const& pairs, int argc, char** argv) {
  int const only = argc > 1 ? std::atoi(argv[1]) : -1;
  int agreed = 0;
  int refused = 0;
  int failed = 0;
  detail::Runs<T> runs;
  for (std::size_t i = 0; i < pairs.size() && failed < 3; ++i) {
    if (only >= 0 && static_cast<int>(i) != only) {
      continue;
    }
    Pair const& pair = pairs[i];
    Entry<T> const& many = entries[static_cast<std::size_t>(pair.many)];
    if (!detail::fits_processes(many)) {
      continue;
    }
    std::string const& name = many.name;
    std::printf("pair %zu: %s\n", i, name.c_str());
    std::fflush(stdout);
    test::Watchdog const watchdog{name.c_str(), std::chrono::seconds{100}};
    tardiness = pair.tardy;
    std::string why;
    try {
      detail::PairRun<T> run{entries, task, pair, runs};
      why = run.run();
      if (many.over_processes && why.empty()) {
        std::printf("bits %zu %016llx\n", i, static_cast<unsigned long long>(run.bits()));
      }
    } catch (std::exception const& error) {
      why = error.what();
      bool const refuses = why.find(".rows cannot run") != std::string::npos ||
                           why.find("table of actions cannot be run") != std::string::npos;
      if (refuses) {
        std::printf("refused %zu: %s\n", i, error.what());
        ++refused;
        continue;
      }
      why = "threw: " + why;
    }
    if (why.empty()) {
      ++agreed;
    } else {
      ++failed;
      std::printf("FAILED %zu: %s\n", i, why.c_str());
      if (world.processes > 1) {
        std::fflush(stdout);
        std::_Exit(1);
      }
    }
  }
  std::printf("agreed %d refused %d failed %d\n", agreed, refused, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace tandem::fuzz
