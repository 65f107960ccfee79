// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// ProcessGroup: what the processes that load one checkpoint do together: they add numbers up, hand
/// bytes on, and fail with one sentence.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <tandem/comm/world.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>
#include <tandem/train/checkpoint/work_kind.hpp>
#include <tandem/train/over_processes.hpp>

namespace tandem::detail {

/// Behind an interface, so that what is done with it is compiled once, not for each strategy.
class ProcessGroup {
 public:
  explicit ProcessGroup(World const& world)
      : process_{world.process}, processes_{world.processes} {}
  ProcessGroup(ProcessGroup const&) = delete;
  ProcessGroup& operator=(ProcessGroup const&) = delete;
  virtual ~ProcessGroup() = default;

  [[nodiscard]] int process() const { return process_; }
  [[nodiscard]] int processes() const { return processes_; }

  /// Each number becomes its sum over the processes, which all call it with as many.
  virtual void add_up(std::span<double> numbers) = 0;

  /// Whether pass_on() is there.
  [[nodiscard]] virtual bool passes_on() const = 0;
  /// The bits of @p numbers become those of process @p from, -1: stay, and go to each of @p to. The
  /// others call it, too, with as many numbers.
  virtual void pass_on(std::span<double> numbers, int from, std::span<int const> to) = 0;

 private:
  int process_;
  int processes_;
};

/// The processes of a trainer, whose first ranks carry what they hand on.
/// @tparam Workers  a WorkerGroup, which outlives this
template <class Workers>
class WorkersAsProcesses final : public ProcessGroup {
 public:
  WorkersAsProcesses(Workers& workers, World const& world)
      : ProcessGroup{world}, workers_{workers} {}

  void add_up(std::span<double> numbers) override { add_over_processes(workers_, numbers); }
  [[nodiscard]] bool passes_on() const override { return workers_.passes_on(); }
  void pass_on(std::span<double> numbers, int from, std::span<int const> to) override {
    using RankType = typename Workers::RankType;
    std::vector<int> ranks;
    for (int const process : to) {
      ranks.push_back(process * workers_.size());
    }
    workers_.run_on(
        0,
        [&](RankType& rank) {
          rank.pass_on(numbers, from < 0 ? -1 : from * workers_.size(), ranks);
        },
        WorkKind::writes);
  }

 private:
  Workers& workers_;
};

/// The text of the one process that gives one, in all of them.
/// Cost: a third more than its bytes, all-reduced.
TANDEM_ONCE std::string text_of_one(ProcessGroup& group, std::string text);

/// Of an error that a process has had with @p path: the path that it names, a 0 and its words.
TANDEM_ONCE std::string told(std::exception_ptr const& failure, std::string const& path,
                             int process);

/// Where processes have failed all throw what the first of them did, in the others a FileError of
/// its words; where none has, nothing happens. All processes call it.
TANDEM_ONCE void fail_together(ProcessGroup& group, std::string const& path,
                               std::exception_ptr const& failure);

}  // namespace tandem::detail

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE std::string text_of_one(ProcessGroup& group, std::string text) {
  auto size = static_cast<double>(text.size());
  group.add_up(std::span{&size, 1});
  text.resize(static_cast<std::size_t>(size));  // of zeros, where there was none
  constexpr std::size_t each = 6;               // bytes: a whole number that a double holds
  constexpr std::size_t piece = each << 16;
  for (std::size_t begin = 0; begin < text.size(); begin += piece) {
    std::size_t const count = std::min(piece, text.size() - begin);
    std::vector<double> numbers((count + each - 1) / each);
    auto const word = [&](std::size_t i) {
      return std::span{text.data() + begin + i * each, std::min(each, count - i * each)};
    };
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, word(i).data(), word(i).size());
      numbers[i] = static_cast<double>(bytes);
    }
    group.add_up(numbers);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      auto const bytes = static_cast<std::uint64_t>(numbers[i]);
      std::memcpy(word(i).data(), &bytes, word(i).size());
    }
  }
  return text;
}

TANDEM_ONCE std::string told(std::exception_ptr const& failure, std::string const& path,
                             int process) {
  std::string const who = "process " + std::to_string(process) + " could not load it: ";
  try {
    std::rethrow_exception(failure);
  } catch (FileError const& error) {
    return error.path() + '\0' + std::string{error.what()}.substr(error.path().size() + 4);
  } catch (std::exception const& error) {
    return path + '\0' + who + error.what();
  } catch (...) {
    return path + '\0' + who + "an error without words";
  }
}

TANDEM_ONCE void fail_together(ProcessGroup& group, std::string const& path,
                               std::exception_ptr const& failure) {
  std::vector<double> failed(static_cast<std::size_t>(group.processes()));
  failed[static_cast<std::size_t>(group.process())] = failure ? 1.0 : 0.0;
  group.add_up(failed);
  auto const first = std::find_if(failed.begin(), failed.end(), [](double f) { return f > 0.0; });
  if (first == failed.end()) {
    return;
  }
  bool const own = first - failed.begin() == group.process();
  std::string const text =
      text_of_one(group, own ? told(failure, path, group.process()) : std::string{});
  try {
    double nothing = 0.0;
    group.add_up(std::span{&nothing, 1});  // who is through this knows that all have the text
  } catch (Error const&) {                 // one that knew it has left already
  }
  if (own) {
    std::rethrow_exception(failure);
  }
  std::size_t const cut = text.find('\0');
  throw FileError{text.substr(0, cut), text.substr(cut + 1)};
}

}  // namespace tandem::detail

#endif
