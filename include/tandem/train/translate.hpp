// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// translate(): the sentences of a dataset of pairs in the words of a trained network.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tandem/core/contract.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/train/beam.hpp>
#include <tandem/train/decode.hpp>
#include <tandem/train/decode_network.hpp>

namespace tandem {

/// What was found, in the order of the dataset: of each sentence the best hypothesis.
struct Translations {
  std::vector<std::vector<std::int32_t>> tokens{};  ///< without begin and end
  std::vector<std::string> text{};  ///< where the dataset can write tokens, as Pairs
  std::vector<double> score{};      ///< see BeamSearch

  [[nodiscard]] std::size_t size() const { return tokens.size(); }
  /// As bleu() takes it.
  operator std::span<std::string const>() const { return text; }
};

/// A PairDataset that says which tokens begin and end a text, as Pairs.
template <class D>
concept TranslationData = PairDataset<D> && requires(D const& data) {
  { data.begin() } -> std::same_as<std::int32_t>;
  { data.end() } -> std::same_as<std::int32_t>;
};

/// Translates the first sentence of every pair of @p data with a Trainer or a Predictor, by beam
/// search; those of the second are not looked at.
///
///   auto const found = translate(trainer, test, Beam{.width = 5, .length = 0.6, .coverage = 0.1});
///   bleu(found, test).score;
///
/// The source goes through the network once, and each token costs a row; what layers hand from row
/// to row is carried. As many sentences at a time as hypotheses fit into a batch. The same on every
/// strategy but for rounding.
/// @throws ContractError  a sentence is empty, or longer than the network takes; a width is larger
///                        than what a device has memory for
template <class Model, class D>
Translations translate(Model& model, D const& data, Beam const& beam = {}) {
  static_assert(TranslationData<D>,
                "translate(model, data): the dataset must be of pairs and have begin() and end(), "
                "as Pairs");
  constexpr bool fits = detail::Translates<detail::translates(Model::graph)>::value;
  Translations all;
  if constexpr (TranslationData<D> && fits) {
    DecodeTask task{.begin = data.begin(), .end = data.end()};
    std::vector<std::int32_t> second;
    std::vector<typename D::Target> y;
    for (std::int64_t i = 0; i < data.size(); ++i) {
      auto& source = task.sources.emplace_back(static_cast<std::size_t>(data.length(i)));
      second.resize(static_cast<std::size_t>(data.second_length(i)));
      y.resize(second.size());
      data.read(i, source, second, y);
    }
    for (auto& hypotheses : model.search(task, beam)) {
      all.tokens.push_back(std::move(hypotheses.front().tokens));
      all.score.push_back(hypotheses.front().score);
      if constexpr (requires { std::string{data.decode(all.tokens.back())}; }) {
        all.text.push_back(data.decode(all.tokens.back()));
      }
    }
  }
  return all;
}

}  // namespace tandem
