// SPDX-License-Identifier: Apache-2.0
// Fuzzes what reads tables: the first byte chooses the header of a .npy file (0), or the cells of a
// CSV file and what separates them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tandem/core/error.hpp>
#include <tandem/data/csv_cells.hpp>
#include <tandem/data/npy_header.hpp>

#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  std::string const name = "fuzzed";
  try {
    if (data[0] == 0) {
      tandem::NpyHeader const header = tandem::parse_npy({data + 1, size - 1}, name);
      std::int64_t elements = 1;
      for (int axis = 0; axis < header.rank; ++axis) {
        elements *= header.extent[axis];
      }
      fuzz::require(header.elements == elements && elements > 0);
      fuzz::require(header.bytes +
                        static_cast<std::size_t>(elements) * tandem::size_of(header.type) ==
                    size - 1);
    } else {
      std::string const text{reinterpret_cast<char const*>(data) + 1, size - 1};
      tandem::detail::CsvCells cells{text, static_cast<char>(data[0]), name};
      std::vector<std::string> row;
      for (std::size_t line = 0; cells.next(row); line = cells.line()) {
        fuzz::require(!row.empty() && cells.line() > line);
      }
    }
  } catch (tandem::FileError const&) {
    return 0;  // any other exception is a finding
  }
  return 0;
}
