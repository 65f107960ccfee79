// SPDX-License-Identifier: Apache-2.0
// expect-error: Reproducible<>: this communicator does not say that it adds in an order fixed by
// rank
#include <tandem/tandem.hpp>

using namespace tandem;

struct Net : Network<Vector<4>, Sequential<Linear<8>, ReLU, Linear<4>>> {};

/// A user's own way to add, of which the order is not known.
struct MyCommunicator : ThreadsCommunicator {
  explicit MyCommunicator(ThreadsCommunicator of_threads)
      : ThreadsCommunicator{std::move(of_threads)} {}
#ifdef TANDEM_COMPILE_FAIL
  static constexpr bool ordered = false;
#endif
};

template <int Ranks>
struct MyTransport : ThreadsTransport<Ranks> {
  using Base = ThreadsTransport<Ranks>;
  using Communicator = MyCommunicator;
  using Base::Base;
  Communicator communicator(int rank) { return Communicator{Base::communicator(rank)}; }
  Communicator communicator(int rank, int group) {
    return Communicator{Base::communicator(rank, group)};
  }
};

int main() {
  Trainer<Net, TensorParallel<2, Reproducible<>>, Host, SoftmaxCrossEntropy<>, Accuracy,
          MyTransport>
      trainer{{.batch = 4}};
  return trainer.memory().wire == 0 ? 0 : 1;
}
