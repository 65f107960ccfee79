// SPDX-License-Identifier: Apache-2.0
// What a collective of the emulated NCCL computes: sums have the order of a ring.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <tandem/core/bfloat16.hpp>
#include <tandem/core/float16.hpp>

#include "nccl_state.hpp"

namespace cuda_emulator::nccl {
namespace {

template <class T>
T join(ncclRedOp_t op, T a, T b) {
  return op == ncclMax ? (b > a || b != b ? b : a) : static_cast<T>(a + b);
}

tandem::BFloat16 join(ncclRedOp_t op, tandem::BFloat16 a, tandem::BFloat16 b) {
  return tandem::BFloat16{join(op, static_cast<float>(a), static_cast<float>(b))};
}

tandem::Float16 join(ncclRedOp_t op, tandem::Float16 a, tandem::Float16 b) {
  return tandem::Float16{join(op, static_cast<float>(a), static_cast<float>(b))};
}

// out[r][i - begin(r)] over all ranks' in[i], each part of the array beginning with another rank.
template <class T>
void reduce(std::vector<Part> const& parts, std::size_t count, std::size_t begin, std::size_t end,
            T* out) {
  std::size_t const n = parts.size();
  std::size_t const share = (count + n - 1) / n;
  for (std::size_t i = begin; i < end; ++i) {
    std::size_t const first = i / share + 1;
    T sum = static_cast<T const*>(parts[first % n].in)[i];
    for (std::size_t r = 1; r < n; ++r) {
      sum = join(parts[0].call.op, sum, static_cast<T const*>(parts[(first + r) % n].in)[i]);
    }
    out[i - begin] = sum;
  }
}

template <class T>
void reduce_all(std::vector<Part>& parts) {
  bool const scatter = parts[0].call.operation == "ncclReduceScatter";
  std::size_t const n = parts.size();
  std::size_t const own = parts[0].call.count;
  std::size_t const count = scatter ? own * n : own;
  std::vector<std::vector<T>> results(n);
  for (std::size_t r = 0; r < n; ++r) {
    results[r].resize(own);
    std::size_t const begin = scatter ? own * r : 0;
    reduce(parts, count, begin, begin + own, results[r].data());
  }
  for (std::size_t r = 0; r < n; ++r) {
    std::memcpy(parts[r].out, results[r].data(), own * sizeof(T));
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void perform(std::vector<Part>& parts) {
  NcclCall const& call = parts[0].call;
  std::size_t const bytes = call.count * bytes_of(call.type);
  if (call.operation == "ncclBroadcast") {
    std::vector<std::byte> data(bytes);
    std::memcpy(data.data(), parts[static_cast<std::size_t>(call.peer)].in, bytes);
    for (Part const& part : parts) {
      std::memcpy(part.out, data.data(), bytes);
    }
  } else if (call.operation == "ncclAllGather") {
    std::vector<std::byte> all(bytes * parts.size());
    for (std::size_t r = 0; r < parts.size(); ++r) {
      std::memcpy(all.data() + r * bytes, parts[r].in, bytes);
    }
    for (Part const& part : parts) {
      std::memcpy(part.out, all.data(), all.size());
    }
  } else if (call.type == ncclFloat32) {
    reduce_all<float>(parts);
  } else if (call.type == ncclFloat64) {
    reduce_all<double>(parts);
  } else if (call.type == ncclBfloat16) {
    reduce_all<tandem::BFloat16>(parts);
  } else if (call.type == ncclFloat16) {
    reduce_all<tandem::Float16>(parts);
  } else {
    reduce_all<std::int32_t>(parts);
  }
}

}  // namespace cuda_emulator::nccl
