// SPDX-License-Identifier: Apache-2.0
// expect-error: Queue::post: a task must be trivially copyable
#include <vector>

#include <tandem/runtime/host/queue.hpp>

#ifdef TANDEM_COMPILE_FAIL
using Data = std::vector<int>;
#else
using Data = std::vector<int> const*;
#endif

void use(tandem::host::Queue& queue, Data data) {
  queue.post([data] { static_cast<void>(data); });
}

int main() { return 0; }
