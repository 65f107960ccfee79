// SPDX-License-Identifier: Apache-2.0
// expect-only-error: Trainer is not movable, since its ranks hold on to it: keep std::unique_ptr
#include <tandem/tandem.hpp>

#include <list>
#include <vector>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
template <class T>
using Many = std::vector<T>;
#else
template <class T>
using Many = std::list<T>;
#endif

struct Net : Network<Vector<4>, Sequential<Linear<3>>> {};

int main() {
  Many<Trainer<Net, SingleDevice<>, Host>> trainers;
  trainers.emplace_back(TrainerOptions{.batch = 8});
  return trainers.size() == 1 ? 0 : 1;
}
