// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Beam, and BeamSearch: which hypotheses of one sentence go on, given the network's logits. It
/// knows of no network.
///
/// Source: Wu et al., "Google's Neural Machine Translation System", arXiv:1609.08144, section 7;
/// that finished hypotheses keep their place in the beam is as in NVIDIA's GNMT.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/core/finite.hpp>

namespace tandem {

/// How to look for the likeliest text.
struct Beam {
  int width = 5;          ///< hypotheses of each sentence; 1 always takes the likeliest token
  double length = 0.6;    ///< α: log probabilities are divided by ((5 + tokens) / 6)^α; 0: by 1
  double coverage = 0.0;  ///< β of the penalty on parts of the source that are passed over
  int tokens = 0;         ///< at most so many, the end among them; 0: as many as the network takes
};

/// A text that has been found.
struct Hypothesis {
  std::vector<std::int32_t> tokens{};  ///< without begin and end
  double score = 0.0;                  ///< what hypotheses are compared by when all is written
  double log_probability = 0.0;        ///< of the tokens, and of the end if there is one
  bool ended = false;                  ///< by the end token; else there was no room for more
};

/// The beam of one sentence.
///
/// In each round every hypothesis that has not ended may go on with any token, one that has stays
/// as it is, and the `width` of largest log probability are the next beam: of equals that of the
/// earlier hypothesis, then of the lower token. The round in which all have ended is the last. Then
/// the score decides, log probability / ((5 + tokens) / 6)^α + β Σ_j log min(1, taken_j), the
/// tokens counted with the end, taken_j being what all rows have taken of source row j; of equals
/// the earlier.
class BeamSearch {
 public:
  /// @pre beam.width >= 1
  explicit BeamSearch(Beam const& beam) : beam_{beam}, all_(1) {}

  /// Hypotheses that have not ended, whose logits the next round wants, in this order.
  [[nodiscard]] int open() const {
    return static_cast<int>(std::count_if(all_.begin(), all_.end(), is_open));
  }
  /// Of open hypothesis @p i: its last token. @pre a round has been
  [[nodiscard]] std::int32_t last(int i) const { return nth_open(i).text.tokens.back(); }
  /// The open hypothesis of the round before that it goes on from.
  [[nodiscard]] int parent(int i) const { return nth_open(i).parent; }

  /// A round. @param logits  (open(), vocabulary)
  /// @param taken  of each open hypothesis what it has taken of each row of the source, or empty
  /// @param end    the token that ends a text
  /// @param last   there is no room for more
  TANDEM_ONCE void advance(std::span<float const> logits,
                           std::span<std::span<float const> const> taken, std::int32_t end,
                           bool last);

  /// What was found, the best first.
  TANDEM_ONCE [[nodiscard]] std::vector<Hypothesis> found() const;

 private:
  struct Member {
    Hypothesis text{};
    int parent = 0;
    bool closed = false;
    double passed_over = 0.0;  // Σ log min(1, taken)
  };
  struct Choice {
    double log_probability;
    std::size_t from;
    std::size_t row;  // among those that are open
    std::int32_t token;
  };

  static bool is_open(Member const& member) { return !member.closed; }
  TANDEM_ONCE [[nodiscard]] Member const& nth_open(int i) const;
  // A row of which nothing was taken counts as the smallest number does.
  TANDEM_ONCE static double penalty(std::span<float const> taken);

  Beam beam_;
  std::vector<Member> all_;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

/// log Σ exp(logits). @throws ContractError  it is not finite
TANDEM_ONCE double log_sum(std::span<float const> logits) {
  float const largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (float const logit : logits) {
    sum += double{std::exp(logit - largest)};
  }
  double const all = double{largest} + std::log(sum);
  expects(is_finite(all),
          "translate(data, beam): the network's logits are not finite; it has diverged, or its "
          "weights were not loaded");
  return all;
}

/// The indices of the @p count largest logits, from the largest on, the lower index among equals.
/// Cost: a pass, and count for each that enters.
TANDEM_ONCE void find_largest(std::span<float const> logits, int count,
                              std::vector<std::int32_t>& largest) {
  largest.clear();
  auto const most = static_cast<std::size_t>(count);
  auto const before = [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  };
  for (std::size_t v = 0; v < logits.size(); ++v) {
    auto const token = static_cast<std::int32_t>(v);
    if (largest.size() == most) {
      if (!before(token, largest.back())) {
        continue;
      }
      largest.pop_back();
    }
    largest.insert(std::upper_bound(largest.begin(), largest.end(), token, before), token);
  }
}

}  // namespace tandem::detail

namespace tandem {

TANDEM_ONCE void BeamSearch::advance(std::span<float const> logits,
                                     std::span<std::span<float const> const> taken,
                                     std::int32_t end, bool last) {
  std::vector<Choice> choices;
  std::vector<std::int32_t> largest;
  std::size_t const words = logits.size() / static_cast<std::size_t>(std::max(open(), 1));
  std::size_t row = 0;
  for (std::size_t h = 0; h < all_.size(); ++h) {
    if (!is_open(all_[h])) {
      choices.push_back({all_[h].text.log_probability, h, row, -1});
      continue;
    }
    auto const own = logits.subspan(row * words, words);
    double const sum = detail::log_sum(own);
    detail::find_largest(own, beam_.width, largest);
    for (std::int32_t const token : largest) {
      double const more = double{own[static_cast<std::size_t>(token)]} - sum;
      choices.push_back({all_[h].text.log_probability + more, h, row, token});
    }
    ++row;
  }
  // They stand in the order that decides between equals.
  std::stable_sort(choices.begin(), choices.end(), [](Choice const& a, Choice const& b) {
    return a.log_probability > b.log_probability;
  });
  choices.resize(std::min(choices.size(), static_cast<std::size_t>(beam_.width)));
  std::vector<Member> next;
  for (Choice const& choice : choices) {
    next.push_back(all_[choice.from]);
    Member& own = next.back();
    if (choice.token < 0) {
      continue;
    }
    own.text.log_probability = choice.log_probability;
    own.parent = static_cast<int>(choice.row);
    own.passed_over = taken.empty() ? 0.0 : penalty(taken[choice.row]);
    own.text.ended = choice.token == end;
    own.closed = own.text.ended || last;
    if (!own.text.ended) {
      own.text.tokens.push_back(choice.token);
    }
  }
  all_ = std::move(next);
}

TANDEM_ONCE std::vector<Hypothesis> BeamSearch::found() const {
  std::vector<Hypothesis> list;
  for (Member const& member : all_) {
    list.push_back(member.text);
    Hypothesis& own = list.back();
    double const tokens = static_cast<double>(own.tokens.size()) + (own.ended ? 1.0 : 0.0);
    own.score = own.log_probability / std::pow((5.0 + tokens) / 6.0, beam_.length) +
                beam_.coverage * member.passed_over;
  }
  std::stable_sort(list.begin(), list.end(),
                   [](Hypothesis const& a, Hypothesis const& b) { return a.score > b.score; });
  return list;
}

TANDEM_ONCE BeamSearch::Member const& BeamSearch::nth_open(int i) const {
  auto at = std::find_if(all_.begin(), all_.end(), is_open);
  for (; i > 0; --i) {
    at = std::find_if(at + 1, all_.end(), is_open);
  }
  return *at;
}

TANDEM_ONCE double BeamSearch::penalty(std::span<float const> taken) {
  double sum = 0.0;
  for (float const share : taken) {
    sum += std::log(double{std::clamp(share, std::numeric_limits<float>::min(), 1.0F)});
  }
  return sum;
}

}  // namespace tandem

#endif
