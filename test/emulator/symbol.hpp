// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cuda_emulator {

/// The name of the function at @p address, from the program's own symbol table, or the address.
[[nodiscard]] std::string symbol_name(void const* address);

}  // namespace cuda_emulator
