// SPDX-License-Identifier: Apache-2.0
// expect-error: Trainer<..., Strategy, ..., Transport>: this transport's communicators cannot do
#include <tandem/tandem.hpp>

using namespace tandem;

/// Reduces, and sends no messages.
struct MyCommunicator : ThreadsCommunicator {
  explicit MyCommunicator(ThreadsCommunicator of_threads)
      : ThreadsCommunicator{std::move(of_threads)} {}
#ifdef TANDEM_COMPILE_FAIL
  void send() {}
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

struct Net : Network<Vector<4>, Sequential<Linear<3>, Linear<2>>> {};

int main() {
  Trainer<Net, ModelParallel<Split<1>, Split<1>>, Host, SoftmaxCrossEntropy<>, Accuracy,
          MyTransport>
      trainer{{.batch = 4}};
  return trainer.parameters().size() == 4 && trainer.position().step == 0 ? 0 : 1;
}
