// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// GradientAccounts: how gradients are added up over leaves, copies of the model and replicas.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/graph/spread/volume.hpp>
#include <tandem/measure/account/account.hpp>
#include <tandem/measure/account/account_device.hpp>
#include <tandem/strategy/batch/options.hpp>

#if TANDEM_BODIES

namespace tandem::detail {

/// As GradientReduction, PartialSums, ScatteredBuckets and TiedSums do it.
class GradientAccounts {
 public:
  /// @param clips  by a norm of all gradients
  GradientAccounts(StepAccount& to, AccountDevice const& device, AccountPrecision const& precision,
                   bool clips)
      : to_{to},
        device_{device},
        batching_{device.plan.batching},
        overlaps_{device.copies == 1 || (device.plan.reduces_early && !device.has_twins())},
        leaves_{batching_.leaves_of_copy(device.copies)},
        element_{precision.master},
        clips_{clips} {}

  /// The first bucket of a stage is written next.
  void open(int stage) {
    for (int b = 0; b < buckets() && device_.deals_gradients; ++b) {
      if (at(b).stage == stage) {
        open_bucket(b);
        return;
      }
    }
  }

  /// A bucket is whole for a leaf, unless that is -1.
  void ready(int bucket, int leaf) {
    std::int64_t const count = at(bucket).elements;
    if (leaf < 0 || count == 0) {
      return;
    }
    if (device_.deals_gradients) {
      begin(bucket);
      slot_[bucket & 1] = {.bucket = bucket, .adds = leaf > 0};
      if (bucket + 1 < buckets() && at(bucket + 1).stage == at(bucket).stage) {
        open_bucket(bucket + 1);
      }
      return;
    }
    if (at(bucket).tiled) {
      for (std::size_t i = 0; i < at(bucket).whole.size() && device_.slice > 0; ++i) {
        to_.add("gradients of tiles", "", "memset", 0, bytes(at(bucket).whole[i]));
      }
      to_.add("gradients of tiles", "", "ncclAllReduce", bytes(count), bytes(count));
    }
    for (int carry = leaf; leaves_ > 1 && (carry & 1) != 0; carry >>= 1) {
      add("gradients", count);
    }
    if (leaf != leaves_ - 1) {
      copy("gradients", count);
    } else if (overlaps_) {
      begin(bucket);
    }
  }

  /// What follows reads the sum.
  void await(int bucket) {
    if (device_.deals_gradients) {
      if (slot_[bucket & 1].bucket == bucket) {
        take(slot_[bucket & 1]);
      }
      return;
    }
    bool const twins = device_.has_twins();
    for (int part = device_.parts - 1; !overlaps_ && bucket == 0 && part >= 0; --part) {
      for (int b = 0; b < buckets(); ++b) {
        if (at(b).stage % device_.parts == part && !is_second(b)) {
          if (twins) {
            add("gradients", at(b).elements);
          }
          begin(b);
        }
      }
    }
    std::int64_t const count = at(bucket).elements;
    if (is_second(bucket) || count == 0) {
      return;
    }
    if (rounds() && device_.replicas > 1) {
      std::int64_t const part = scatters(bucket) ? count / device_.shares : count;
      to_.add("gradients", "", bulk("map_kernel:AsItIs", part), rounded(part), bytes(part));
    }
    if (twins) {
      copy("gradients", count);
    }
  }

  /// The square sums of gradients, of which a replica may have a part alone.
  void square() {
    if (!device_.deals_gradients) {
      to_.add("update", "", "gradient_squares_kernel", bytes(device_.dense), 0);
      return;
    }
    for (int b = 0; b < buckets(); ++b) {
      gather(b, "update");
      to_.add("update", "", "gradient_squares_kernel", bytes(at(b).elements), 0);
    }
  }

  /// Each replica has updated its part of the parameters, and gets the others'.
  void gather() {
    for (AccountBucket const& bucket : device_.buckets) {
      if (device_.shares > 1 && !device_.deals_parameters && bucket.elements > 0) {
        to_.add("update", "", "ncclAllGather", bytes(bucket.elements / device_.shares),
                bytes(bucket.elements));
      }
    }
  }

  /// Gradients of whole parameters of which each slice has a part, and of those that layers share.
  void share() {
    if (!shared_) {
      add_partial();
    }
    for (AccountTie const& tie : device_.ties) {
      for (int model = 0; model < device_.copies && !shared_; ++model) {
        share(tie, model);
      }
    }
    shared_ = true;
  }

 private:
  // What is made in one of two slots, where a replica keeps a part.
  struct Slot {
    int bucket = -1;    // whose sum has begun and is not yet taken
    bool adds = false;  // to what the microbatches before have left
    int whole = -1;     // the bucket whose sum was gathered there
  };

  [[nodiscard]] int buckets() const { return static_cast<int>(device_.buckets.size()); }
  [[nodiscard]] AccountBucket const& at(int bucket) const {
    return device_.buckets[static_cast<std::size_t>(bucket)];
  }
  [[nodiscard]] bool is_second(int bucket) const {
    return device_.has_twins() && at(bucket).stage >= device_.parts;
  }
  // Whether this device has the sum of its part alone.
  [[nodiscard]] bool scatters(int bucket) const {
    return device_.shares > 1 && (device_.deals_gradients || (!clips_ && !at(bucket).shared));
  }
  [[nodiscard]] bool rounds() const { return batching_.wire != WireFormat::exact; }
  [[nodiscard]] double bytes(std::int64_t count) const {
    return static_cast<double>(count * element_);
  }
  static double rounded(std::int64_t count) { return 2.0 * static_cast<double>(count); }
  // What transform.cuh takes.
  [[nodiscard]] std::string_view bulk(std::string_view kernel, std::int64_t count) const {
    bool const is_bulk = count * element_ >= (1 << 20) && count % (16 / element_) == 0;
    return is_bulk ? "cub::DeviceTransform::Transform" : kernel;
  }
  void add(char const* place, std::int64_t count) {
    to_.add(place, "", bulk("map_kernel:Plus", count), 2 * bytes(count), bytes(count));
  }
  void copy(char const* place, std::int64_t count) {
    to_.add(place, "", "copy", bytes(count), bytes(count));
  }

  // The sum of a bucket over the replicas.
  void begin(int bucket) {
    std::int64_t const count = at(bucket).elements;
    if (device_.replicas == 1 || count == 0) {
      return;
    }
    double size = bytes(count);
    if (rounds()) {
      to_.add("gradients", "", bulk("map_kernel:AsItIs", count), size, rounded(count));
      size = rounded(count);
    }
    double const own = size / device_.replicas;
    if (batching_.reproducible) {  // each adds a share, in an order fixed by rank
      int const times = scatters(bucket) ? 1 : 2;
      to_.add("gradients", "", "ncclGroup", times * (size - own), times * (size - own), times);
      to_.add("gradients", "", "map_kernel:TreeBody", size, own);
    } else if (scatters(bucket)) {
      to_.add("gradients", "", "ncclReduceScatter", size, own);
    } else {
      to_.add("gradients", "", "ncclAllReduce", size, size);
    }
  }

  // Put side by side, added over the slices, and put back.
  void add_partial() {
    GraphView const graph = device_.graph;
    std::int64_t const all = partial_gradients(graph);
    for (bool const back : {false, true}) {
      for (int p = 0; p < graph.parameters; ++p) {
        if (graph.parameter[p].partial) {
          copy("gradients of rows", graph.parameter[p].parameter.shape.elements());
        }
      }
      if (!back && all > 0) {
        to_.add("gradients of rows", "", "ncclAllReduce", bytes(all), bytes(all));
      }
    }
  }
  void open_bucket(int bucket) {
    if (Slot& slot = slot_[bucket & 1]; slot.bucket >= 0) {
      take(slot);
    }
    slot_[0].whole = slot_[1].whole = -1;
    for (std::int64_t const gap : at(bucket).gaps) {
      to_.add("gradients", "", "memset", 0, bytes(gap));
    }
  }
  void take(Slot& slot) {
    if (slot.adds) {
      add("gradients", at(slot.bucket).elements / device_.shares);
    }
    slot.bucket = -1;
  }
  void gather(int bucket, char const* place) {
    to_.add(place, "", "ncclAllGather", bytes(at(bucket).elements / device_.shares),
            bytes(at(bucket).elements));
  }
  // The bucket of a parameter is whole in slot 0 or another, or it is gathered there.
  void lend(int parameter, int slot) {
    if (!device_.deals_gradients) {
      return;
    }
    int const bucket = bucket_with(parameter);
    if (slot_[0].whole == bucket || (slot == 1 && slot_[1].whole == bucket)) {
      return;
    }
    gather(bucket, "shared");
    slot_[1 - slot].whole = slot_[1 - slot].whole == bucket ? -1 : slot_[1 - slot].whole;
    slot_[slot].whole = bucket;
  }
  void take_back(int parameter) {
    if (device_.deals_gradients) {
      copy("shared", at(bucket_with(parameter)).elements / device_.shares);
    }
  }
  [[nodiscard]] int bucket_with(int parameter) const {
    int bucket = buckets() - 1;
    while (at(bucket).begin > device_.offset[parameter]) {
      --bucket;
    }
    return bucket;
  }

  void share(AccountTie const& tie, int model) {
    std::vector<int> held;
    GraphView const graph = device_.graph;
    for (int p = 0; p < graph.parameters; ++p) {
      GraphParameter const& own = graph.parameter[p];
      bool const of_model = graph.node[own.node].stage / device_.parts == model;
      if (own.owner() == tie.owner && of_model && !own.frozen) {
        held.push_back(p);
      }
    }
    if (held.empty() || (held.size() == 1 && !tie.crosses[model])) {
      return;
    }
    std::int64_t const count = graph.parameter[held[0]].parameter.shape.elements();
    lend(held[0], 0);
    for (std::size_t i = 1; i < held.size(); ++i) {
      lend(held[i], 1);
      add("shared", count);
    }
    if (tie.crosses[model]) {
      to_.add("shared", "", "ncclAllReduce", bytes(count), bytes(count));
    }
    for (std::size_t i = 1; i < held.size(); ++i) {
      lend(held[i], 1);
      copy("shared", count);
      take_back(held[i]);
    }
    take_back(held[0]);
  }

  StepAccount& to_;
  AccountDevice const& device_;
  Batching const& batching_;
  bool overlaps_;
  int leaves_;  // of a copy of the model
  int element_;
  bool clips_;
  bool shared_ = false;
  Slot slot_[2];
};

}  // namespace tandem::detail

#endif
