// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Files of named tensors in the safetensors format, which Python's `safetensors` reads and writes.
///
/// `Safetensors::read(path)` gives views of the tensors; `write_safetensors(path, tensors,
/// metadata)` and `SafetensorsWriter` make a file that appears whole or not at all. Only bytes
/// move: nothing here converts numbers, and a host that is not little-endian must swap them itself.

#include <tandem/io/safetensors/checksum.hpp>
#include <tandem/io/safetensors/dtype.hpp>
#include <tandem/io/safetensors/layout.hpp>
#include <tandem/io/safetensors/numbers.hpp>
#include <tandem/io/safetensors/reader.hpp>
#include <tandem/io/safetensors/writer.hpp>
