// SPDX-License-Identifier: Apache-2.0
// Reproducible: the same bits on 1, 2 and 4 devices; with the portable kernels at any number of
// threads, with a library's at the same number.

#include <type_traits>

#include <parity.hpp>

namespace tandem {
namespace reproducible_test {

/// What the update may do between two steps; dropout and batch norm are in the network.
std::vector<TrainerOptions> updates() {
  TrainerOptions const momentum = test::parity_options();  // and clipping
  TrainerOptions adam = momentum;
  adam.optimizer = Adam{.learning_rate = 0.01F};
  adam.clip_norm = 0.0;
  return {momentum, adam};
}

template <class Backend, class One, class Two, class Four>
void check_backend() {
  for (TrainerOptions options : updates()) {
    test::Run const one = test::five_steps<One, Backend>(options);
    CHECK(test::five_steps<Two, Backend>(options) == one);
    CHECK(test::five_steps<Four, Backend>(options) == one);
    options.threads_per_device = 2;
    test::Run const threaded = test::five_steps<One, Backend>(options);
    CHECK(test::five_steps<Two, Backend>(options) == threaded);
    if constexpr (std::is_same_v<Backend, BasicHost<Portable>>) {
      CHECK(threaded == one);
    }
    options.seed += 1;
    CHECK(test::five_steps<Two, Backend>(options) != threaded);  // the comparison sees it
  }
}

template <class One, class Two, class Four>
void check_same_bits() {
  check_backend<BasicHost<Portable>, One, Two, Four>();
  if constexpr (!std::is_same_v<Host, BasicHost<Portable>>) {
    check_backend<Host, One, Two, Four>();
  }
}

TEST_CASE("four microbatches: the same bits on 1, 2 and 4 devices") {
  check_same_bits<SingleDevice<Microbatches<4>, Reproducible<>>,
                  DataParallel<2, Microbatches<2>, Reproducible<>>,
                  DataParallel<4, Reproducible<>>>();
}

TEST_CASE("eight microbatches in four leaves: the same bits on 1, 2 and 4 devices") {
  check_same_bits<SingleDevice<Microbatches<8>, Reproducible<4>>,
                  DataParallel<2, Microbatches<4>, Reproducible<4>>,
                  DataParallel<4, Microbatches<2>, Reproducible<4>>>();
}

}  // namespace reproducible_test
}  // namespace tandem
