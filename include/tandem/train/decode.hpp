// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Decoder: beam search of many sentences at once on a network whose rows come one by one. A beam
/// is a batch: each hypothesis that is open is a sample.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>
#include <tandem/strategy/batch/microbatch_sizes.hpp>
#include <tandem/strategy/batch/options.hpp>
#include <tandem/train/beam.hpp>

namespace tandem {

/// Sentences to be translated, or prompts to be written on, as tokens.
struct DecodeTask {
  std::vector<std::vector<std::int32_t>> sources{};  ///< each as the network's first input
  std::int32_t begin = 0;  ///< of two inputs: what the second one begins with
  std::int32_t end = 0;    ///< ends a text; -1: nothing does
};

namespace detail {

/// What a Decoder asks of the network: see StepBatch.
struct DecodeCall {
  std::int32_t const* x = nullptr;
  int size = 0;
  int time = 0;
  std::int32_t const* lengths = nullptr;
  std::int32_t const* second = nullptr;
  int position = 0;
  std::int32_t const* parents = nullptr;
  std::span<float> scores{};
  std::span<float> coverage{};
};

/// What of a network and a strategy a Decoder goes by.
struct DecodeSizes {
  int source = 0;  ///< rows of the first input at most
  int target = 0;  ///< of the input that is written: the second one, if there are two
  int vocabulary = 0;
  bool two = false;
  int attentions = 0;  ///< to the first input
  int most = 0;        ///< samples of a step
  int copies = 1;      ///< of the model on a replica's devices
  Batching batching{};
};

/// @throws ContractError  @p beam, or a sentence of @p task, does not fit
TANDEM_ONCE void check_decoding(DecodeSizes const& sizes, DecodeTask const& task, Beam const& beam);

/// Which samples of a batch the same devices take, in the same copy of the model: in each such
/// group hypotheses may go on from each other.
class DecodeGroups {
 public:
  explicit DecodeGroups(DecodeSizes const& sizes) : sizes_{sizes} {}

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(sizes_.batching.replicas * sizes_.copies);
  }
  /// Samples of each group in a batch of @p total.
  TANDEM_ONCE [[nodiscard]] std::vector<int> of(int total) const;
  /// The smallest batch that has room for so many in each group.
  TANDEM_ONCE [[nodiscard]] int fit(std::vector<int> const& wanted) const;
  TANDEM_ONCE [[nodiscard]] bool fits(std::vector<int> const& wanted, int total) const;

 private:
  DecodeSizes const& sizes_;
};

/// Sentences that are decoded together.
class DecodeBatch {
 public:
  DecodeBatch(DecodeSizes const& sizes, DecodeTask const& task, Beam const& beam)
      : sizes_{sizes}, task_{task}, beam_{beam}, groups_{sizes} {}

  void add(std::size_t sentence, std::size_t group) {
    lanes_.push_back({sentence, group, BeamSearch{beam_}});
    longest_ = std::max(longest_, source(lanes_.back()).size());
  }

  /// @param forward  forward(DecodeCall)
  template <class Forward>
  void run(Forward const& forward, std::vector<std::vector<Hypothesis>>& found) {
    auto const first = static_cast<int>(sizes_.two ? 1 : longest_);
    int const rounds = beam_.tokens > 0 ? beam_.tokens : sizes_.target - first + 1;
    place_sources();
    for (int round = 0; round < rounds && open() > 0; ++round) {
      if (round > 0) {
        place_hypotheses();
      }
      ask(forward, round, first);
      for (Lane& lane : lanes_) {
        advance(lane, round + 1 == rounds);
      }
    }
    for (Lane const& lane : lanes_) {
      found[lane.sentence] = lane.search.found();
    }
  }

 private:
  struct Lane {
    std::size_t sentence;
    std::size_t group;
    BeamSearch search;
    int first = 0;  // sample of its first open hypothesis, behind which the others stand
  };

  [[nodiscard]] std::vector<std::int32_t> const& source(Lane const& lane) const {
    return task_.sources[lane.sentence];
  }
  TANDEM_ONCE [[nodiscard]] int open() const;

  // Gives each lane its samples. A batch is as it was until it can be a good deal smaller, so that
  // steps are of few sizes.
  TANDEM_ONCE void place();

  // Samples of no lane have what the first lane has.
  TANDEM_ONCE void place_sources();

  TANDEM_ONCE void place_hypotheses();

  template <class Forward>
  void ask(Forward const& forward, int round, int first) {
    bool const begins = round == 0;
    logits_.resize(static_cast<std::size_t>(size_) * static_cast<std::size_t>(sizes_.vocabulary));
    taken_.resize(beam_.coverage > 0.0 ? static_cast<std::size_t>(size_ * sizes_.source) : 0);
    DecodeCall call{.size = size_,
                    .position = begins ? 0 : first + round - 1,
                    .parents = begins ? nullptr : parents_.data(),
                    .scores = logits_,
                    .coverage = taken_};
    if (begins) {
      call.x = x_.data();
      call.time = static_cast<int>(longest_);
      call.lengths = sizes_.two ? lengths_.data() : nullptr;
    } else if (!sizes_.two) {
      call.x = last_.data();
      call.time = 1;
    }
    call.second = sizes_.two ? last_.data() : nullptr;
    forward(call);
  }

  TANDEM_ONCE void advance(Lane& lane, bool last);

  DecodeSizes const& sizes_;
  DecodeTask const& task_;
  Beam const& beam_;
  DecodeGroups groups_;
  std::vector<Lane> lanes_;
  std::size_t longest_ = 0;  // source
  int size_ = 0;             // samples of the batch
  std::vector<std::int32_t> x_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int32_t> last_;     // token of each sample
  std::vector<std::int32_t> parents_;  // sample of the batch before
  std::vector<float> logits_;
  std::vector<float> taken_;
};

/// Hypotheses of each sentence, the best first. Sentences of like lengths go together; without a
/// second input, of one length.
/// @param forward  forward(DecodeCall): a step of the network
/// @throws ContractError  what check_decoding() says, or no device takes a whole beam
template <class Forward>
std::vector<std::vector<Hypothesis>> decode(DecodeSizes const& sizes, DecodeTask const& task,
                                            Beam const& beam, Forward const& forward) {
  check_decoding(sizes, task, beam);
  std::vector<int> room = DecodeGroups{sizes}.of(sizes.most);
  int any = 0;
  for (int& each : room) {
    each /= beam.width;
    any += each;
  }
  if (any == 0) {
    throw ContractError{
        "translate(data, beam): a beam of .width " + std::to_string(beam.width) +
        " is as many samples of one device and one microbatch's copy of the model, but memory is "
        "planned for " +
        std::to_string(sizes.most) +
        " on all; give a larger TrainerOptions::batch or PredictorOptions::hypotheses"};
  }
  std::vector<std::size_t> order(task.sources.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  auto const length = [&](std::size_t i) { return task.sources[i].size(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  std::vector<std::vector<Hypothesis>> found(order.size());
  for (std::size_t next = 0; next < order.size();) {
    DecodeBatch batch{sizes, task, beam};
    std::size_t const longest = length(order[next]);
    std::vector<int> left = room;
    bool goes_on = true;
    while (goes_on) {  // one to each group in turn
      goes_on = false;
      for (std::size_t g = 0; g < left.size() && next < order.size(); ++g) {
        if (left[g] > 0 && (sizes.two || length(order[next]) == longest)) {
          --left[g];
          batch.add(order[next++], g);
          goes_on = true;
        }
      }
    }
    batch.run(forward, found);
  }
  return found;
}

}  // namespace detail

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE void check_decoding(DecodeSizes const& sizes, DecodeTask const& task,
                                Beam const& beam) {
  expects(beam.width >= 1 && beam.tokens >= 0 && is_finite(beam.length) && beam.length >= 0.0 &&
              is_finite(beam.coverage) && beam.coverage >= 0.0,
          "translate(data, beam): .width must be 1 or more, and .length, .coverage and .tokens 0 "
          "or more");
  expects(beam.coverage == 0.0 || sizes.attentions == 1,
          "translate(data, beam): .coverage is of what an attention has taken of the source, but "
          "the network has none to its first input, or several; leave .coverage at 0");
  expects(task.end < sizes.vocabulary && (!sizes.two || (task.begin >= 0 && task.end >= 0)),
          "translate(data, beam): begin and end must be tokens that the network writes");
  for (std::size_t i = 0; i < task.sources.size(); ++i) {
    auto const rows = static_cast<std::int64_t>(task.sources[i].size());
    if (rows < 1 || rows > sizes.source) {
      throw ContractError{"translate(data, beam): sentence " + std::to_string(i) + " has " +
                          std::to_string(rows) + " tokens, but the network takes 1 to " +
                          std::to_string(sizes.source)};
    }
    std::int64_t const room = sizes.target - (sizes.two ? 1 : rows) + 1;
    if (beam.tokens > room) {
      throw ContractError{"translate(data, beam): .tokens is " + std::to_string(beam.tokens) +
                          ", but behind sentence " + std::to_string(i) +
                          " the network has room for " + std::to_string(room)};
    }
  }
}

TANDEM_ONCE std::vector<int> DecodeGroups::of(int total) const {
  std::vector<int> list(count());
  for (int m = 0; m < sizes_.batching.all_microbatches(); ++m) {
    int const group =
        sizes_.batching.replica_of(m) * sizes_.copies + sizes_.batching.copy_of(m, sizes_.copies);
    list[static_cast<std::size_t>(group)] += microbatch_size(total, m, sizes_.batching);
  }
  return list;
}

TANDEM_ONCE int DecodeGroups::fit(std::vector<int> const& wanted) const {
  int total = 0;
  for (int const each : wanted) {
    total += each;
  }
  while (total < sizes_.most && !fits(wanted, total)) {
    ++total;
  }
  return total;
}

TANDEM_ONCE bool DecodeGroups::fits(std::vector<int> const& wanted, int total) const {
  std::vector<int> const list = of(total);
  bool all = true;
  for (std::size_t g = 0; g < list.size(); ++g) {
    all = all && wanted[g] <= list[g];
  }
  return all;
}

TANDEM_ONCE int DecodeBatch::open() const {
  int sum = 0;
  for (Lane const& lane : lanes_) {
    sum += lane.search.open();
  }
  return sum;
}

TANDEM_ONCE void DecodeBatch::place() {
  std::vector<int> wanted(groups_.count());
  for (Lane const& lane : lanes_) {
    wanted[lane.group] += lane.search.open();
  }
  int const least = groups_.fit(wanted);
  if (least > size_ || least <= size_ * 3 / 4 || !groups_.fits(wanted, size_)) {
    size_ = least;
  }
  std::vector<int> next(groups_.count());
  std::vector<int> const sizes = groups_.of(size_);
  for (std::size_t g = 1; g < next.size(); ++g) {
    next[g] = next[g - 1] + sizes[g - 1];
  }
  for (Lane& lane : lanes_) {
    lane.first = next[lane.group];
    next[lane.group] += lane.search.open();
  }
}

TANDEM_ONCE void DecodeBatch::place_sources() {
  place();
  auto const samples = static_cast<std::size_t>(size_);
  x_.assign(samples * longest_, 0);
  lengths_.assign(samples, 1);
  for (Lane const& lane : lanes_) {
    auto const at = static_cast<std::size_t>(lane.first);
    std::copy(source(lane).begin(), source(lane).end(),
              x_.begin() + static_cast<std::ptrdiff_t>(at * longest_));
    lengths_[at] = static_cast<std::int32_t>(source(lane).size());
  }
  last_.assign(samples, task_.begin);
}

TANDEM_ONCE void DecodeBatch::place_hypotheses() {
  std::vector<int> before;
  for (Lane const& lane : lanes_) {
    before.push_back(lane.first);
  }
  place();
  last_.assign(static_cast<std::size_t>(size_), 0);
  parents_.assign(static_cast<std::size_t>(size_), -1);
  for (std::size_t l = 0; l < lanes_.size(); ++l) {
    BeamSearch const& search = lanes_[l].search;
    for (int i = 0; i < search.open(); ++i) {
      auto const sample = static_cast<std::size_t>(lanes_[l].first + i);
      last_[sample] = search.last(i);
      parents_[sample] = static_cast<std::int32_t>(before[l] + search.parent(i));
    }
  }
}

TANDEM_ONCE void DecodeBatch::advance(Lane& lane, bool last) {
  int const open = lane.search.open();
  if (open == 0) {
    return;
  }
  auto const words = static_cast<std::size_t>(sizes_.vocabulary);
  auto const first = static_cast<std::size_t>(lane.first);
  std::vector<std::span<float const>> taken;
  for (int i = 0; i < open && !taken_.empty(); ++i) {
    auto const rows = static_cast<std::size_t>(sizes_.source);
    taken.push_back(std::span{taken_}.subspan((first + static_cast<std::size_t>(i)) * rows,
                                              source(lane).size()));
  }
  lane.search.advance(std::span<float const>{logits_}.subspan(
                          first * words, static_cast<std::size_t>(open) * words),
                      taken, task_.end, last);
}

}  // namespace tandem::detail

#endif
