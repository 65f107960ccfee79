// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// rendezvous(): the first words between the processes of one program; process 0 tells the others
/// some bytes, such as the key with which NCCL connects them.
///
/// Over TCP, over files in a folder that all see, or over what the program already has. No MPI is
/// needed.

#include <cstddef>
#include <span>
#include <string>

#include <tandem/comm/patience.hpp>
#include <tandem/comm/rendezvous/file.hpp>
#include <tandem/comm/rendezvous/hello.hpp>
#include <tandem/comm/rendezvous/tcp.hpp>
#include <tandem/comm/world.hpp>
#include <tandem/core/clock.hpp>
#include <tandem/core/config.hpp>
#include <tandem/core/error.hpp>

namespace tandem {

/// Every process leaves with process 0's @p data. All call it, as often and in the same order; each
/// returns when its own part is done. A single process returns at once.
///
/// Nothing of an earlier run can be mistaken for this one: each process asks with a number made up
/// for this call, and takes only an answer to it.
///
/// Nobody else learns the data, answers for process 0 or takes a process's place. Over TCP both
/// sides prove that they know the token, and the data are hidden by it; over files only what this
/// user alone may read and write counts. Whoever proves nothing is refused, and process 0 goes on.
/// With neither a token nor a token file everybody who can reach the port is trusted.
/// @param data     its size agrees on all processes; at most 64 KiB
/// @param timeout  for all of it together; only a resolver of host names may take longer
/// @throws TimeoutError   a process did not come; the message names it, and says who was refused
/// @throws ContractError  process 0 was told another number of processes, or of bytes; it itself
///                        goes on waiting for one that agrees
/// @throws Error          the address or the token file cannot be used; the message says why
TANDEM_ONCE void rendezvous(World const& world, std::span<std::byte> data,
                            std::chrono::milliseconds timeout);

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE void rendezvous(World const& world, std::span<std::byte> data,
                            std::chrono::milliseconds timeout) {
  check_world(world);
  if (world.processes == 1) {
    return;
  }
  Rendezvous const& where = world.rendezvous;
  if (where.broadcast != nullptr) {
    where.broadcast(where.context, data.data(), data.size());
    return;
  }
  expects(timeout.count() > 0, "rendezvous: the timeout must be positive");
  expects(data.size() <= detail::largest_rendezvous,
          "rendezvous: the data may have 64 KiB at most");
  if (where.address.empty()) {
    throw Error{
        "rendezvous: this program was started as " + std::to_string(world.processes) +
        " processes, which do not know where to meet: set TANDEM_RENDEZVOUS to host:port, a free "
        "port of the machine of process 0, or to file:PATH on a disk that all see"};
  }
  detail::Patience patience = detail::rendezvous_patience(world, timeout);
  if (where.address.rfind("file:", 0) == 0) {
    detail::rendezvous_over_files(world, data, timeout, patience);
  } else {
    detail::rendezvous_over_tcp(world, data, timeout, patience);
  }
}

}  // namespace tandem

#endif
