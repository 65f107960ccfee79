// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tandem::cuda {
class Stream;
}

/// A function that queues a kernel: every unit has its own copy of it, and the linker keeps one.
using Fill = void (*)(tandem::cuda::Stream const&, float*, std::int64_t, float);

Fill fill_of_the_first_unit();
Fill fill_of_the_second_unit();
bool first_unit_prefers_cudnn();
bool second_unit_prefers_cudnn();
