// SPDX-License-Identifier: Apache-2.0
// expect-error: Trainer<Net, Strategy, Cuda>: include <tandem/cuda.cuh> and compile this file
#include <tandem/tandem.hpp>

using namespace tandem;

#ifdef TANDEM_COMPILE_FAIL
using Backend = Cuda;
#else
using Backend = Host;
#endif

struct Net : models::SmallCnn<10> {};

int main() {
  return Trainer<Net, SingleDevice<>, Backend>{{.batch = 8}}.position().step == 0 ? 0 : 1;
}
