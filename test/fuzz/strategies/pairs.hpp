// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Pair: a strategy, what it is compared with, and how both train; run_pairs() is the main program
/// of what program.py writes.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <tandem/schedule/csv/reader.hpp>
#include <tandem/schedule/orders/make_schedule.hpp>

#include <support/watchdog.hpp>

#include "comparison.hpp"
#include "contender.hpp"

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
        runs_{runs} {}

  /// "" if the two agree; else what differs.
  std::string run() {
    Outcome<T> const& wanted = reference(0.0);
    TrainerOptions const options = options_of(pair_);
    TrainerOptions own = options;
    if (*pair_.rows != '\0') {
      own.rows = read_table_csv(pair_.rows, "rows").rows;
    }
    auto const contender = many_.make(own, pair_.microbatches);
    std::string why = check_memory(*contender);
    bool const only_trains = one_.is_equation;
    Outcome<T> const got = train<T>(*contender, pair_, task_, only_trains, saved_path(), 0, true);
    why = why.empty() ? differ(got, wanted) : why;
    for (int replica = 0; replica < many_.replicas && why.empty(); ++replica) {
      for (int copy = 0; copy < many_.copies && why.empty(); ++copy) {
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
      why = check_resumed(own, wanted);
    }
    std::filesystem::remove(saved_path());
    return why;
  }

 private:
  // Whether what it writes is looked at token by token: not in float, where others are as likely,
  // nor on an emulated GPU, whose passes over texts would take minutes.
  [[nodiscard]] bool writes_again() const {
    return task_.input.timed && !task_.labelled && sizeof(T) == 8 && task_.same_kernels;
  }

  [[nodiscard]] std::string saved_path() const {
    return std::filesystem::temp_directory_path() /
           ("tandem-fuzz-" + std::to_string(getpid()) + ".safetensors");
  }

  Outcome<T> const& reference(double perturbation) {
    std::string const key = key_of(pair_) + " " + std::to_string(perturbation > 0);
    auto const found = runs_.find(key);
    if (found != runs_.end()) {
      return found->second;
    }
    auto const contender = make_one();
    if (perturbation > 0.0) {
      perturb(*contender, perturbation, saved_path() + "-perturbed");
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
    one->load(saved_path());
    Outcome<T> const there = train<T>(*one, pair_, task_, false, saved_path() + "2", pair_.saved);
    std::string why = differ(there, wanted, pair_.saved);
    if (!why.empty()) {
      return "one device that loads what was saved: " + why;
    }
    auto const before = make_one();
    train<T>(*before, pair_, task_, false, saved_path());
    auto const many = many_.make(own, pair_.microbatches);
    many->load(saved_path());
    Outcome<T> const back =
        train<T>(*many, pair_, task_, false, saved_path() + "2", pair_.saved, true);
    std::filesystem::remove(saved_path() + "2");
    why = differ(back, wanted, pair_.saved);
    return why.empty() ? why : "loaded from what one device saved: " + why;
  }

  // The strategy's own table alone has the bound's number of live microbatches.
  std::string check_memory(Contender<T>& contender) {
    for (int device = 0; device < many_.devices && *pair_.rows == '\0'; ++device) {
      if (many_.is_equation) {
        break;
      }
      std::int64_t const most = many_.bound(options_of(pair_), device).total();
      MemoryReport const report = contender.memory(device);
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
};

}  // namespace detail

/// Runs the pairs, or number argv[1] of them. Prints a line a pair, and a last one of counts; 1 if
/// any failed.
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
    std::string const name = entries[static_cast<std::size_t>(pair.many)].name;
    std::printf("pair %zu: %s\n", i, name.c_str());
    std::fflush(stdout);
    test::Watchdog const watchdog{name.c_str(), std::chrono::seconds{100}};
    tardiness = pair.tardy;
    std::string why;
    try {
      why = detail::PairRun<T>{entries, task, pair, runs}.run();
    } catch (std::exception const& error) {
      why = error.what();
      if (why.find(".rows cannot run") != std::string::npos) {
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
    }
  }
  std::printf("agreed %d refused %d failed %d\n", agreed, refused, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace tandem::fuzz
