// SPDX-License-Identifier: Apache-2.0
// Fuzzes what process 0 and the others read of strangers at a rendezvous. The first byte chooses:
// 0 a hello, 1 an answer, 2 a token file, 3 an address, 4 a text for a message, 5 a hello in a
// file; 16 more: a hello or an answer is signed first, as by who knows the token, to get behind
// that.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tandem/comm/rendezvous/rendezvous.hpp>
#include <tandem/core/printable.hpp>

namespace {

using namespace tandem;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

constexpr std::string_view secret = "the data of process 0";

World world_of(int process) {
  return {.processes = 4,
          .process = process,
          .local_process = process,
          .rendezvous = {.address = "host:1", .token = "token"}};
}

/// Replies to the hello in @p bytes; a welcome must be to a process of this world, and is read.
void read_hello(std::span<std::byte const> bytes, bool sign) {
  World const world = world_of(0);
  detail::RendezvousKey const key{"secret", "token"};
  detail::Nonce const challenge{};
  detail::Hello hello;
  if (!detail::parse_message(bytes, hello)) {
    return;
  }
  if (sign) {
    hello.signature = key.sign(hello, challenge);
  }
  if (!key.proves(hello, challenge)) {
    return;
  }
  require(sign);
  detail::RollCall calls{world, key, detail::bytes_of(secret), nullptr};
  auto const reply = calls.reply(hello);
  std::string data(secret.size(), '?');
  std::string why;
  try {
    require(detail::take_answer(world_of(1), key, hello, reply.bytes,
                                std::as_writable_bytes(std::span{data}), why));
    require(data == secret && reply.process == hello.process && hello.process > 0 &&
            hello.process < 4 && hello.processes == 4 && hello.bytes == secret.size());
    calls.note(reply.process);
    require(calls.reply(hello).bytes.empty());
  } catch (ContractError const& error) {
    require(reply.process == 0);
    require(detail::printable(error.what(), 100000) == error.what());
  }
}

void read_answer(std::span<std::byte const> bytes, bool sign) {
  detail::RendezvousKey const key{"secret", "token"};
  detail::Hello const hello{.bytes = secret.size(), .processes = 4, .process = 1};
  std::vector<std::byte> answer(bytes.begin(), bytes.end());
  if (detail::Answer head; sign && answer.size() >= sizeof head) {
    std::memcpy(&head, answer.data(), sizeof head);
    head.signature = key.sign(head, hello.nonce, bytes.subspan(sizeof head));
    std::memcpy(answer.data(), &head, sizeof head);
  }
  std::string data(secret.size(), '?');
  std::string why;
  try {
    bool const taken = detail::take_answer(world_of(1), key, hello, answer,
                                           std::as_writable_bytes(std::span{data}), why);
    require(!taken || (sign && answer.size() == sizeof(detail::Answer) + data.size()));
    require(taken || data == std::string(secret.size(), '?'));
  } catch (ContractError const& error) {
    require(sign && detail::printable(error.what(), 100000) == error.what());
  }
}

/// The same through a file.
void read_file(std::span<std::byte const> bytes, bool sign) {
  static std::string const pattern =
      (std::filesystem::temp_directory_path() / "tandem-fuzz-XXXXXX").string();
  std::string name = pattern;
  detail::Descriptor const file{::mkstemp(name.data())};
  require(::write(file.get(), bytes.data(), bytes.size()) == static_cast<::ssize_t>(bytes.size()));
  auto const read = detail::read_private_file(name, sizeof(detail::Hello) + 1);
  static_cast<void>(::unlink(name.data()));
  require(read.is_private &&
          read.bytes.size() == std::min(bytes.size(), sizeof(detail::Hello) + 1));
  read_hello(read.bytes, sign);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  bool const sign = (data[0] & 16U) != 0;
  auto const bytes = std::as_bytes(std::span{data + 1, size - 1});
  std::string const text(reinterpret_cast<char const*>(data + 1), size - 1);
  switch (data[0] % 16) {
    case 0:
      read_hello(bytes, sign);
      break;
    case 1:
      read_answer(bytes, sign);
      break;
    case 2: {
      std::string const token = detail::parse_token(bytes);
      require(token.empty() || (token.size() >= 16 && token.size() < 4096));
      break;
    }
    case 3:
      try {
        auto const [host, port] = detail::split_address(text);
        require(!host.empty() && !port.empty() &&
                port.find_first_not_of("0123456789") == std::string::npos);
      } catch (ContractError const&) {
        break;  // any other exception is a finding
      }
      break;
    case 4:
      require(std::ranges::all_of(detail::printable(text),
                                  [](char c) { return c >= ' ' && c <= '~'; }));
      break;
    case 5:
      read_file(bytes, sign);
      break;
    default:
      break;
  }
  return 0;
}
