// SPDX-License-Identifier: Apache-2.0
// expect-code-error: Trainer<Net>, Predictor<Net>: Net has no base Network<Input, Body>
// expect-lines: 12
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
struct Net {};
#else
struct Net : Network<Vector<4>, Sequential<Linear<3> > > {};
#endif

int main() {
  Trainer<Net, SingleDevice<>, Host> made{{.batch = 8}};
  return made.parameters().size() == 2 ? 0 : 1;
}
