// SPDX-License-Identifier: Apache-2.0

/// @file
/// The strategies that train as one device does.

#include "pictures.hpp"

#include <tandem/layers/activation.hpp>
#include <tandem/layers/embedding.hpp>
#include <tandem/layers/linear.hpp>
#include <tandem/layers/recurrent.hpp>
#include <tandem/layers/vocabulary.hpp>
#include <tandem/schedule/picture/schedule_svg.hpp>
#include <tandem/schedule/time/step_period.hpp>
#include <tandem/strategy/cut/placed.hpp>

namespace tandem::drawings {

namespace {

using Four = FourLayers;
struct Branches
    : Network<Image<1, 2, 2>, Sequential<Concat<Sequential<ReLU, ReLU>, Sequential<ReLU, ReLU>>,
                                         Flatten, Linear<2>>> {};

struct Rows
    : Network<Tokens<8, 5>, Sequential<Embedding<5, 4>, Gru<4>, Gru<4>, Gru<4>, Vocabulary<5>>> {};

constexpr auto branch = place<Branches>({{"0.1", 1}});

using One = Split<1>;
template <class Schedule, int Microbatches>
using OnFour = Pipeline<Schedule, Microbatches, One, One, One, One>;
template <class Schedule, int Microbatches>
using OnFourTwice = Pipeline<Schedule, Microbatches, One, One, One, One, One, One, One, One>;

// Passes and messages of two steps in a row.
template <class S>
Picture draw_two_steps(std::string name, std::string const& title) {
  using Cut = typename S::template Cut<Four>;
  ActionRows const rows = steps_in_a_row(Cut::table, S::batching.microbatches, 2);
  return {std::move(name), schedule_svg(rows, simulate(rows, Cut::map), title)};
}

}  // namespace

std::vector<Picture> synchronous_pictures() {
  return {
      draw<Four, SingleDevice<Microbatches<2>>>(
          "single_device", "SingleDevice<Microbatches<2>>",
          "One device, one microbatch after another; their gradients are added."),
      draw<Four, DataParallel<2, Microbatches<2>>>("data_parallel",
                                                   "DataParallel<2, Microbatches<2>>",
                                                   "All of the model on every device; gradients "
                                                   "are summed while the last backward goes on."),
      draw<Four, ModelParallel<One, One, One, One, Microbatches<2>>>(
          "model_parallel", "ModelParallel<Split<a>, Split<b>, Split<c>, Split<d>>",
          "A part of the model a device; one of them works at a time."),
      draw<Branches, ModelParallel<Placed<branch>>>(
          "placed", "ModelParallel<Placed<table>>",
          "Any node on any device: here the two branches of a block run at the same time."),
      draw<Four, OnFour<GPipe, 4>>("gpipe", "Pipeline<GPipe, 4, ...>",
                                   "All forward, then all backward."),
      draw<Four, OnFour<OneFOneB, 8>>(
          "one_f_one_b", "Pipeline<OneFOneB, 8, ...>",
          "One forward, one backward: device r has at most p - r microbatches live."),
      draw<Four, Pipeline<Interleaved<2>, 4, One, One, One, One>>(
          "interleaved", "Pipeline<Interleaved<2>, 4, ...>",
          "Two parts a device: passes are half as long, and so is the idle time."),
      draw<Four, OnFour<ZeroBubbleH1, 4>>(
          "zero_bubble_h1", "Pipeline<ZeroBubbleH1, 4, ...>",
          "Weight gradients fill the time in which a device would wait."),
      draw<EightLayers, OnFourTwice<ZeroBubbleV, 7>>(
          "zero_bubble_v", "Pipeline<ZeroBubbleV, 7, ...>",
          "Two parts a device, down the devices and back up; none waits between two passes."),
      draw<Four, OnFour<ZeroBubbleH2, 7>>(
          "zero_bubble_h2", "Pipeline<ZeroBubbleH2, 7, ...>",
          "More forwards ahead than in H1: none waits between two passes."),
      draw_two_steps<OnFour<PostValidated<ZeroBubbleH2>, 7>>(
          "post_validated", "Pipeline<PostValidated<ZeroBubbleH2>, 7, ...>: two steps"),
      draw<EightLayers, OnFourTwice<VHalf, 5>>(
          "v_half", "Pipeline<VHalf, 5, ...>",
          "Half of 1F1B's activations: passes repeat in a pattern of six."),
      draw<EightLayers, OnFourTwice<VMin, 5>>(
          "v_min", "Pipeline<VMin, 5, ...>",
          "A third of 1F1B's activations: every pass follows at once."),
      draw<EightLayers, OnFourTwice<DualPipeV, 8>>(
          "dual_pipe_v", "Pipeline<DualPipeV, 8, ...>",
          "A forward of one stage, a backward of the other: each hides the other's messages."),
      draw<Four, OnFour<DualPipe, 8>>(
          "dual_pipe", "Pipeline<DualPipe, 8, ...>",
          "The same with two copies of one model in opposite directions."),
      draw<Four, OnFour<Chimera, 4>>(
          "chimera", "Pipeline<Chimera, 4, ...>",
          "Two copies of one model in opposite directions; their gradients are summed."),
      draw<Rows, Pipeline<OneFOneB, 1, Chunks<4>, Split<2>, One, One, One>>(
          "chunks", "Pipeline<OneFOneB, 1, Chunks<4>, ...>",
          "The rows of each sequence in chunks of time: a wave, back from the last to the first."),
      draw<Four, Hybrid<DataParallel<2>, Pipeline<OneFOneB, 4, Split<2>, Split<2>>>>(
          "hybrid", "Hybrid<DataParallel<2>, Pipeline<OneFOneB, 4, ...>>",
          "Two replicas of a pipeline of two devices; ranks with the same part sum its gradients."),
  };
}

}  // namespace tandem::drawings
