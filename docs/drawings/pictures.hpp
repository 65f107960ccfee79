// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Picture: a strategy type, drawn.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <tandem/graph/network.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/schedule/picture/strategy_svg.hpp>
#include <tandem/strategy/program.hpp>

namespace tandem::drawings {

struct Picture {
  std::string name;  ///< of the file, without ".svg"
  std::string svg;
};

/// Those of one kind each; every kind is a unit of its own.
std::vector<Picture> synchronous_pictures();
std::vector<Picture> cross_model_pictures();
std::vector<Picture> asynchronous_pictures();

/// The text of docs/what_goes_together.md.
std::string goes_together_page();

/// What is cut: a layer a device.
struct FourLayers : Network<Image<1, 2, 2>, Sequential<Flatten, Linear<4>, Linear<4>, Linear<2>>> {
};
struct EightLayers
    : Network<Image<1, 2, 2>, Sequential<Flatten, Linear<4>, Linear<4>, Linear<4>, Linear<4>,
                                         Linear<4>, Linear<4>, Linear<2>>> {};
struct ThreeLayers : Network<Image<1, 2, 2>, Sequential<Flatten, Linear<4>, Linear<2>>> {};
struct TwoLayers : Network<Image<1, 2, 2>, Sequential<Flatten, Linear<2>>> {};

/// What strategy @p S does with a step of @p Net, or with those of which @p rows are the passes.
template <class Net, class S>
Picture draw_rows(std::string name, std::string const& title, std::string const& sentence,
                  ActionRows const& rows) {
  PictureRules const rules{.replicas = S::batching.replicas,
                           .averaging = detail::averaging_of<S>(),
                           .asynchrony = detail::asynchrony_of<S>()};
  StepPicture const picture = step_picture(rows, S::template Cut<Net>::map, rules);
  return {std::move(name), strategy_svg(picture, title, sentence)};
}

template <class Net, class S>
Picture draw(std::string name, std::string const& title, std::string const& sentence) {
  return draw_rows<Net, S>(std::move(name), title, sentence, rows_of(S::template Cut<Net>::table));
}

}  // namespace tandem::drawings
