// SPDX-License-Identifier: Apache-2.0
// The check of memory plans finds nothing in the plans of all strategies, and what is wrong in
// plans that were made wrong.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tandem/tandem.hpp>

#include <deep_network.hpp>
#include <unit/engine/planned_memory.hpp>

namespace tandem::test {
namespace memory_check_test {

constexpr Rewrites all_rewrites{
    .fuse_relu = true, .channels_last = true, .merge_pointwise = true, .place_concat = true};

template <class P, int D = 0>
void check_devices() {
  INFO("device " << D);
  PlannedDevice<typename P::template Device<D>> const planned;
  CHECK(planned.play() == "");
  for (StageLife const& stage : planned.rows.stages) {  // as many as device_memory() counts
    int const id = P::template Device<D>::graph.node[stage.first].stage;
    CHECK(stage.deferred == deferred_microbatches(P::table, P::map, id));
  }
  if constexpr (D + 1 < P::devices) {
    check_devices<P, D + 1>();
  }
}

/// All devices of a strategy, for portable kernels and for those of oneDNN.
template <class Net, class S>
void check() {
  check_devices<Program<Net, S, 4>>();
  check_devices<Program<Net, S, 4, all_rewrites>>();
}

TEST_CASE("nothing is wrong in the plans of pipelines") {
  check<DeepNet, InTwo<GPipe, 8>>();
  check<DeepNet, InFour<OneFOneB, 8>>();
  check<DeepNet, InTwo<ZeroBubbleH1, 4>>();
  check<DeepNet, InEight<Interleaved<4>, 4>>();
  check<DeepNet, InFour<Chimera, 8, Reproducible<>>>();
}

TEST_CASE("nothing is wrong where values are computed again") {
  check<DeepNet, InFour<OneFOneB, 8, Checkpoint<Boundaries>>>();
  check<DeepNet, InTwo<GPipe, 2, Checkpoint<Every<2>>>>();
}

inline constexpr auto places =
    place<DeepNet>({{"3", 1}, {"5.0", 1}, {"5.1", 2}, {"6", 1}, {"8.body", 2}, {"9", 0}});

/// Activations between products, behind one, and across a cut.
struct Perceptron
    : Network<Image<2, 4, 4>,
              Sequential<Flatten, Linear<24>, GeluTanh, Linear<16>, ReLU, Dropout<>, Linear<16>,
                         Residual<Sequential<Linear<32>, GeluTanh, Linear<16>>>, Linear<8>, ReLU,
                         Linear<8>, GeluTanh, Dropout<>, Linear<5>>> {};

template <class S>
void check_activations() {
  check_devices<Program<Perceptron, S, 4, Rewrites{.fuse_linear = true}>>();
}

TEST_CASE("nothing is wrong where a product saves what its activation is applied to") {
  check_activations<SingleDevice<>>();
  check_activations<Pipeline<OneFOneB, 4, Split<3>, Split<11>>>();
  check_activations<Pipeline<ZeroBubbleH1, 4, Split<2>, Split<12>>>();
  check_activations<Pipeline<GPipe, 4, Split<4>, Split<10>, Checkpoint<Every<2>>>>();
  check_activations<Pipeline<OneFOneB, 4, Split<8>, Split<6>, Checkpoint<Every<3>>>>();
}

struct SumsAndNorms
    : Network<
          Vector<16>,
          Sequential<Linear<16>,
                     Repeat<4, Residual<Sequential<LayerNorm<>, GeluTanh, Linear<16>, Dropout<>>>>,
                     LayerNorm<>, Linear<4>>> {};

template <class S>
void check_sums() {
  check_devices<Program<SumsAndNorms, S, 4, Rewrites{.fuse_sum = true}>>();
}

TEST_CASE("nothing is wrong where a norm computes the sum before it") {
  check_sums<SingleDevice<>>();
  check_sums<Pipeline<OneFOneB, 4, Split<3>, Split<4>>>();
  check_sums<Pipeline<ZeroBubbleH1, 4, Split<2>, Split<5>>>();
  check_sums<Pipeline<GPipe, 4, Split<4>, Split<3>, Checkpoint<Every<2>>>>();
}

TEST_CASE("nothing is wrong where branches are placed") {
  check<DeepNet, ModelParallel<Placed<places>, Microbatches<4>>>();
  check<DeepNet, ModelParallel<Placed<places>, Microbatches<4>, Reproducible<>>>();
}

// Plans made wrong, as they were once, or as they may be.

struct Convolutions
    : Network<Image<2, 4, 4>,
              Sequential<Conv2d<3>, Conv2d<3>, AvgPool2d<Kernel<2>>, Flatten, Linear<3>>> {};

template <class Net, class S, int D>
using Planned = PlannedDevice<typename Program<Net, S, 4>::template Device<D>>;

TEST_CASE("a value that is computed again over the gradient behind it") {
  using S = ModelParallel<Split<1>, Split<2>, Split<2>, Checkpoint<Every<2>>>;
  Planned<Convolutions, S, 1> planned;
  CHECK(planned.play() == "");
  planned.memory.plan().between_gradients = false;
  CHECK(planned.play() ==
        "memory plan: 1B0 reads the gradient for node 2 (AvgPool2d 2) from node 3 (Send 2), "
        "microbatch 0, where 1B0 has written the value of node 1 (Conv2d 1), microbatch 0");
}

struct Middle : Network<Vector<4>, Sequential<Linear<8>, ReLU, Linear<3>>> {};
using Three = ModelParallel<Split<1>, Split<1>, Split<1>, Microbatches<4>>;

/// What is wrong without the waits before such an action.
template <int D>
std::string without(ActionKind before) {
  Planned<Middle, Three, D> planned;
  CHECK(planned.play() == "");
  std::erase_if(planned.memory.plan().waits,
                [&](SendWait const& wait) { return wait.before == before; });
  return planned.play();
}

TEST_CASE("a message that does not wait for the one that is sent from where it arrives") {
  CHECK(without<1>(ActionKind::receive_forward) ==
        "memory plan: 1RECV_F1 writes the value of node 0 (Receive 0), microbatch 1, where "
        "1SEND_F0 may still be sending the value of node 1 (ReLU 1), microbatch 0");
}

TEST_CASE("a pass that does not wait for what is sent from where it computes") {
  CHECK(without<0>(ActionKind::forward) ==
        "memory plan: 0F1 writes the value of node 1 (Linear 0), microbatch 1, where 0SEND_F0 may "
        "still be sending the value of node 1 (Linear 0), microbatch 0");
  CHECK(without<1>(ActionKind::backward) ==
        "memory plan: 1B1 writes the gradient to be sent of node 0 (Receive 0), microbatch 1, "
        "where 1SEND_B0 may still be sending the gradient to be sent of node 0 (Receive 0), "
        "microbatch 0");
}

TEST_CASE("too few slots, of values and of gradients") {
  Planned<Middle, Pipeline<OneFOneB, 4, Split<1>, Split<1>, Split<1>>, 0> values;
  --values.memory.task().stages[0].live;
  CHECK(values.play() ==
        "memory plan: 0F2 writes the value of node 1 (Linear 0), microbatch 2, where 0SEND_F0 may "
        "still be sending the value of node 1 (Linear 0), microbatch 0");
  Planned<DeepNet, InFour<ZeroBubbleH1, 8>, 1> gradients;
  REQUIRE(gradients.memory.task().stages[0].deferred > 1);
  --gradients.memory.task().stages[0].deferred;
  CHECK(gradients.play() ==
        "memory plan: 1W0 reads the gradient for node 4 (Add 3) from node 5 (Dropout 4), "
        "microbatch 0, where 1I1 has written the gradient for node 4 (Add 3) from node 5 (Dropout "
        "4), microbatch 1");
}

TEST_CASE("a value moved to where another one is; less memory than the plan has") {
  using Device = Program<DeepNet, SingleDevice<>, 4>::Device<0>;
  int moved = 0;
  for (std::size_t n = 1; n < Device::graph.nodes; ++n) {
    PlannedDevice<Device> planned;
    if (std::int64_t& offset = planned.memory.plan().value[n]; offset > 0) {
      ++moved;
      offset = 0;
      CHECK(planned.play() != "");
    }
  }
  CHECK(moved > 5);
  PlannedDevice<Device> planned;
  planned.memory.plan().gradient_bytes /= 2;
  CHECK(planned.play() ==
        "memory plan: 0B0 has the gradient for node 9 (MaxPool2d 5.1) from node 12 (Concat 5), "
        "microbatch 0 outside of the rank's memory");
}

// Rows that a program brings, drawn: passes in any order that can run, and messages that arrive as
// early as they can. Every rank's memory is right for them.

class Rows {
 public:
  Rows(StageMapView map, int microbatches, unsigned seed)
      : map_{map}, microbatches_{microbatches}, random_{seed}, splits_{draw(2) == 1} {}

  /// Passes one after another, each drawn from those that can come next.
  ActionRows passes() {
    ActionRows rows(static_cast<std::size_t>(map_.devices));
    std::vector<int> forward;
    for (int s = 0; s < map_.stages; ++s) {
      forward.push_back(map_.first_microbatch(s, microbatches_));
    }
    std::vector<int> const first = forward;
    std::vector<int> back = forward;
    std::vector<int> retired = forward;
    for (;;) {
      std::vector<Action> ready;
      for (int s = 0; s < map_.stages; ++s) {
        auto const add = [&](ActionKind kind, std::vector<int> const& next) {
          ready.push_back(
              {.kind = kind, .stage = static_cast<std::int16_t>(s), .index = next[at(s)]});
        };
        bool goes_on = forward[at(s)] < first[at(s)] + microbatches_ / map_.copies;
        bool goes_back = back[at(s)] < forward[at(s)];
        for (int e = 0; e < map_.edges; ++e) {
          auto const [from, to, link] = map_.edge[e];
          goes_on = goes_on && (to != s || forward[at(from)] > forward[at(s)]);
          goes_back = goes_back && (from != s || back[at(to)] > back[at(s)]);
        }
        if (goes_on) {
          add(ActionKind::forward, forward);
        }
        if (goes_back) {
          add(splits_ ? ActionKind::input_gradient : ActionKind::backward, back);
        }
        if (splits_ && retired[at(s)] < back[at(s)]) {
          add(ActionKind::weight_gradient, retired);
        }
      }
      if (ready.empty()) {
        return rows;
      }
      Action const next = ready[at(draw(static_cast<int>(ready.size())))];
      rows[at(map_.device[next.stage])].push_back(next);
      std::vector<int>& count = next.kind == ActionKind::forward           ? forward
                                : next.kind == ActionKind::weight_gradient ? retired
                                                                           : back;
      ++count[at(next.stage)];
    }
  }

  /// Moves receives forward, as long as the rows can run.
  void hurry(ActionRows& rows) {
    for (int tries = 0; tries < 30; ++tries) {
      std::vector<Action>& row = rows[at(draw(map_.devices))];
      int const from = draw(static_cast<int>(row.size()));
      int const to = draw(from + 1);
      if (row[at(from)].kind == ActionKind::receive_forward ||
          row[at(from)].kind == ActionKind::receive_backward) {
        std::vector<Action> const before = row;
        std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
        row = verify(rows, map_, microbatches_) ? row : before;
      }
    }
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  int draw(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  StageMapView map_;
  int microbatches_;
  std::mt19937 random_;
  bool splits_;
};

template <class P, int D = 0>
void check_rows_of_devices(ActionRows const& rows, int microbatches) {
  INFO("device " << D);
  CHECK(PlannedDevice<typename P::template Device<D>>{rows, microbatches}.play() == "");
  if constexpr (D + 1 < P::devices) {
    check_rows_of_devices<P, D + 1>(rows, microbatches);
  }
}

template <class S>
void check_rows() {
  using P = Program<DeepNet, S, 4>;
  int can_run = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    int const microbatches = P::map.copies * (1 + static_cast<int>(seed % 5));
    Rows drawn{P::map, microbatches, seed};
    ActionRows rows = lower(drawn.passes(), P::map);
    if (verify(rows, P::map, microbatches)) {
      ++can_run;
      drawn.hurry(rows);
      check_rows_of_devices<P>(rows, microbatches);
    }
  }
  CHECK(can_run > 10);
}

TEST_CASE("rows of pipelines, several stages a device, two models, placed branches") {
  check_rows<InFour<ZeroBubbleH1, 4>>();
  check_rows<Pipeline<Interleaved<2>, 4, Split<2>, Split<3>, Split<3>, Split<4>>>();
  check_rows<InTwo<Chimera, 4, Reproducible<>>>();
  check_rows<ModelParallel<Placed<places>, Microbatches<4>>>();
}

}  // namespace memory_check_test
}  // namespace tandem::test
