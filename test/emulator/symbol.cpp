// SPDX-License-Identifier: Apache-2.0
// Names of kernels for reports. They are hidden functions, so the dynamic linker does not know
// them.

#include "symbol.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cuda_emulator {
namespace {

std::string demangled(char const* name) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> const text{
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free};
  return status == 0 ? text.get() : name;
}

template <class T>
T read_at(std::vector<char> const& file, std::size_t at) {
  T value{};
  if (at + sizeof value <= file.size()) {
    std::memcpy(&value, file.data() + at, sizeof value);
  }
  return value;
}

std::uintptr_t load_address() {
  std::uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

// The mangled names of all functions, by address.
std::map<std::uintptr_t, std::string> functions() {
  std::ifstream stream{"/proc/self/exe", std::ios::binary};
  std::vector<char> const file{std::istreambuf_iterator<char>{stream}, {}};
  std::map<std::uintptr_t, std::string> names;
  auto const header = read_at<Elf64_Ehdr>(file, 0);
  for (unsigned s = 0; s < header.e_shnum; ++s) {
    auto const table = read_at<Elf64_Shdr>(file, header.e_shoff + s * sizeof(Elf64_Shdr));
    if (table.sh_type != SHT_SYMTAB) {
      continue;
    }
    auto const text =
        read_at<Elf64_Shdr>(file, header.e_shoff + table.sh_link * sizeof(Elf64_Shdr));
    for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      auto const symbol = read_at<Elf64_Sym>(file, table.sh_offset + at);
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
          text.sh_offset + symbol.st_name < file.size()) {
        names.emplace(symbol.st_value, file.data() + text.sh_offset + symbol.st_name);
      }
    }
  }
  return names;
}

}  // namespace

std::string symbol_name(void const* address) {
  // Never destroyed: what first asks may be a fiber, where the leak checker loses count of
  // atexit().
  static auto const& names = *new std::map<std::uintptr_t, std::string>{functions()};
  auto const found = names.find(reinterpret_cast<std::uintptr_t>(address) - load_address());
  if (found != names.end()) {
    return demangled(found->second.c_str());
  }
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

}  // namespace cuda_emulator
