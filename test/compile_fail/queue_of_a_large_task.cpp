// SPDX-License-Identifier: Apache-2.0
// expect-error: Queue::post: a task may have 64 bytes at most
#include <tandem/runtime/host/queue.hpp>

#ifdef TANDEM_COMPILE_FAIL
struct Data {
  char bytes[65];
};
#else
struct Data {
  char bytes[64];
};
#endif

void use(tandem::host::Queue& queue, Data data) {
  queue.post([data] { static_cast<void>(data); });
}

int main() { return 0; }
