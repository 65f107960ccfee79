// SPDX-License-Identifier: Apache-2.0
// expect-error: Trainer<..., Transport>: this template is no transport, or its Communicator lacks
#include <tandem/tandem.hpp>

using namespace tandem;

/// Of which nobody can end the waiting.
template <int Ranks>
struct MyTransport : ThreadsTransport<Ranks> {
  using ThreadsTransport<Ranks>::ThreadsTransport;
#ifdef TANDEM_COMPILE_FAIL
  void abort() {}
#endif
};

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
  Trainer<Net, DataParallel<2>, Host, SoftmaxCrossEntropy<>, Accuracy, MyTransport> trainer{
      {.batch = 4}};
  return trainer.parameters().size() == 2 && trainer.position().step == 0 ? 0 : 1;
}
