// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Beam search the slow way: of each hypothesis the network reads all that is written, without
/// anything carried; and whether translate() finds the same.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/tandem.hpp>

#include <support/watchdog.hpp>
#include <translated_sentences.hpp>

namespace tandem {
namespace test::translated {

/// Log probabilities of the next token, by a Predictor that reads everything.
template <class PredictorType>
std::vector<double> next(PredictorType& predictor, std::vector<std::int32_t> const& source,
                         std::vector<std::int32_t> const& written) {
  std::vector<std::int32_t> x = source;
  std::vector<std::int32_t> text{begin};
  Sequences sequences;
  if constexpr (input_shape<typename PredictorType::ProgramType>(1).valid()) {
    text.insert(text.end(), written.begin(), written.end());
    sequences.second = text;
    sequences.second_time = static_cast<int>(text.size());
  } else {
    x.insert(x.end(), written.begin(), written.end());
  }
  sequences.time = static_cast<int>(x.size());
  auto const logits = predictor.predict(x, sequences);
  double sum = 0.0;
  std::vector<double> list;
  for (auto const logit : logits) {
    list.push_back(static_cast<double>(logit));
    sum += std::exp(list.back());
  }
  for (double& each : list) {
    each -= std::log(sum);
  }
  return list;
}

struct Text {
  std::vector<std::int32_t> tokens{};
  double log_probability = 0.0;
  bool ended = false;
};

/// The likeliest texts of at most @p most tokens, the end among them, by the book: every round
/// sorts all that could come. Score: without coverage.
template <class PredictorType>
std::vector<Hypothesis> slow(PredictorType& predictor, std::vector<std::int32_t> const& source,
                             Beam const& beam, int most) {
  std::vector<Text> texts(1);
  for (int t = 0; t < most; ++t) {
    std::vector<Text> all;
    for (Text const& text : texts) {
      if (text.ended) {
        all.push_back(text);
        continue;
      }
      auto const more = next(predictor, source, text.tokens);
      for (std::int32_t v = 0; v < static_cast<std::int32_t>(more.size()); ++v) {
        all.push_back(text);
        all.back().log_probability += more[static_cast<std::size_t>(v)];
        all.back().ended = v == end;
        if (v != end) {
          all.back().tokens.push_back(v);
        }
      }
    }
    std::stable_sort(all.begin(), all.end(), [](Text const& a, Text const& b) {
      return a.log_probability > b.log_probability;
    });
    all.resize(std::min(all.size(), static_cast<std::size_t>(beam.width)));
    texts = all;
  }
  std::vector<Hypothesis> found;
  for (Text const& text : texts) {
    double const size = static_cast<double>(text.tokens.size()) + (text.ended ? 1.0 : 0.0);
    found.push_back({text.tokens, text.log_probability * std::pow((5.0 + size) / 6.0, -beam.length),
                     text.log_probability, text.ended});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](Hypothesis const& a, Hypothesis const& b) { return a.score > b.score; });
  return found;
}

inline void check_same(std::vector<Hypothesis> const& found, std::vector<Hypothesis> const& wanted,
                       double bound) {
  REQUIRE(found.size() == wanted.size());
  for (std::size_t h = 0; h < found.size(); ++h) {
    CHECK(found[h].tokens == wanted[h].tokens);
    CHECK(found[h].ended == wanted[h].ended);
    CHECK(std::fabs(found[h].score - wanted[h].score) <= bound);
    CHECK(std::fabs(found[h].log_probability - wanted[h].log_probability) <= bound);
  }
}

/// Makes the weights so large that hypotheses differ by much, on every device.
template <class Model>
void enlarge(Model& model) {
  for (auto const& p : model.parameters()) {
    std::vector<typename Model::T> values(p.value.begin(), p.value.end());
    for (auto& value : values) {
      value *= 8;
    }
    if (p.owner == p.index) {
      model.set_parameter(p.name, values);
    }
  }
}

inline TrainerOptions options(int batch) {
  return {.batch = batch,
          .optimizer = Adam{.learning_rate = 0.01F},
          .seed = 3,
          .threads_per_device = 1};
}

/// Whether @p model finds what the slow search with @p predictor, of the same weights, finds.
template <class Model, class PredictorType>
void check_search(Model& model, PredictorType& predictor, DecodeTask const& all, Beam const& beam,
                  double bound) {
  CAPTURE(beam.width);
  auto const found = model.search(all, beam);
  REQUIRE(found.size() == all.sources.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    int const most = beam.tokens > 0 ? beam.tokens : longest;
    check_same(found[i], slow(predictor, all.sources[i], beam, most), bound);
  }
}

/// @param bound  of a score; logits are floats
template <class S, class Backend = Double, class Network = Net>
void check(int batch, std::vector<Beam> const& beams, double bound = 1e-5) {
  test::Watchdog const watchdog{"translate()"};
  Trainer<Network, S, Backend> trainer{options(batch)};
  enlarge(trainer);
  Predictor<Network, Backend> predictor{{.hypotheses = batch, .threads = 1}};
  predictor.take(trainer);
  // Before any larger search, since memory that one leaves behind would hide what is missing.
  int const groups = S::ranks / S::devices * Trainer<Network, S, Backend>::ProgramType::map.copies;
  for (int n = 0; n <= groups + 1; ++n) {
    CAPTURE(n);
    DecodeTask few = task();
    few.sources.resize(std::min(few.sources.size(), static_cast<std::size_t>(n)));
    check_search(trainer, predictor, few, beams.front(), bound);
  }
  for (Beam const& beam : beams) {
    check_search(trainer, predictor, task(), beam, bound);
  }
  check_search(predictor, predictor, task(), beams.front(), bound);
}

}  // namespace test::translated
}  // namespace tandem
