// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Length buckets: an epoch's order in which a batch has samples of about one length, so that
/// little of it is padding.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/core/contract.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/epoch_order.hpp>
#include <tandem/data/loader_options.hpp>
#include <tandem/data/order.hpp>

namespace tandem {

/// A Dataset of sequences, or of pairs of them, that wants batches of like lengths: buckets() says
/// of how many kinds, each as wide as the others. Of a pair the longer of both counts.
template <class D>
concept BucketedDataset = (SequenceDataset<D> || PairDataset<D>)&&requires(D const& data) {
  { data.buckets() } -> std::same_as<int>;
};

/// The bucket, of @p buckets, of a sequence of @p length rows where there are at most @p longest.
/// @pre longest >= 1, buckets >= 1
[[nodiscard]] constexpr int bucket_of(int length, int longest, int buckets) {
  std::int64_t const place = (std::int64_t{length} - 1) * buckets / longest;
  return static_cast<int>(std::clamp<std::int64_t>(place, 0, buckets - 1));
}

/// The longest length in bucket @p bucket.
/// @pre as above; 0 <= bucket < buckets
[[nodiscard]] constexpr int bucket_end(int bucket, int longest, int buckets) {
  std::int64_t const end = (std::int64_t{bucket} + 1) * longest;
  return static_cast<int>((end + buckets - 1) / buckets);
}

namespace detail {

/// Rows of a batch whose longest sample has @p length, of at most @p most: where @p data has
/// buckets as many as the longest of that bucket, so that steps are of few lengths and a GPU
/// records few.
template <class D>
[[nodiscard]] int rows_of_batch(D const& data, int length, int most) {
  if constexpr (BucketedDataset<D>) {
    int const buckets = data.buckets();
    return buckets > 1 ? bucket_end(bucket_of(length, most, buckets), most, buckets) : length;
  } else {
    return length;
  }
}

/// The bucket of sample @p index of @p data.
template <BucketedDataset D>
[[nodiscard]] int bucket_of_sample(D const& data, std::int64_t index) {
  int const first = bucket_of(data.length(index), data.shape()[0], data.buckets());
  if constexpr (PairDataset<D>) {
    return std::max(first,
                    bucket_of(data.second_length(index), data.second_shape()[0], data.buckets()));
  } else {
    return first;
  }
}

/// Fills @p order with batches of the samples of each bucket, then with the rest.
TANDEM_ONCE void order_batches(std::span<std::int64_t> order,
                               std::vector<std::vector<std::int64_t>> const& buckets, int batch,
                               std::uint64_t seed, std::int64_t epoch);

}  // namespace detail

/// Fills @p order with a permutation of 0, …, n - 1, n being its size, whose batches of @p batch
/// are each of one bucket, in random order.
///
/// Samples are shuffled by shuffled_order() and cut into batches within their bucket; so are the
/// last of each bucket, fewer than a batch, from the shortest on; then whole batches are shuffled.
/// Those of such rests have samples of several buckets, at most as many as there are buckets. What
/// is no whole batch stands at the end. As in shuffled_order() nothing else plays a part.
///
/// Cost: shuffled_order() twice, and two arrays as long as order.
/// @param bucket  bucket(sample), in [0, @p buckets)
/// @pre   batch >= 1, buckets >= 1
template <class Bucket>
void bucketed_order(std::span<std::int64_t> order, Bucket const& bucket, int buckets, int batch,
                    std::uint64_t seed, std::int64_t epoch) {
  expects(batch >= 1 && buckets >= 1, "bucketed_order: a batch and a bucket at least");
  shuffled_order(order, seed, epoch);
  std::vector<std::vector<std::int64_t>> of(static_cast<std::size_t>(buckets));
  for (std::int64_t const sample : order) {
    of[static_cast<std::size_t>(bucket(sample))].push_back(sample);
  }
  detail::order_batches(order, of, batch, seed, epoch);
}

namespace detail {

/// Whether an epoch over @p data is in length buckets.
template <Dataset D>
[[nodiscard]] bool is_in_buckets(D const& data, LoaderOptions const& options) {
  if constexpr (BucketedDataset<D>) {
    if (options.shuffle) {
      expects(data.buckets() >= 1, "a dataset's buckets() must be 1, for none, or more");
      return data.buckets() > 1;
    }
  }
  return false;
}

TANDEM_ONCE EpochOrder order_without_buckets(std::int64_t size, LoaderOptions const& options);

}  // namespace detail

/// Bytes of what epoch_order() gives: 8 a sample where that is a table, else none.
template <Dataset D>
[[nodiscard]] std::size_t epoch_order_bytes(D const& data, LoaderOptions const& options) {
  bool const is_table = detail::is_in_buckets(data, options) ||
                        (options.shuffle && data.size() <= EpochOrder::most_in_table);
  return is_table ? static_cast<std::size_t>(data.size()) * sizeof(std::int64_t) : 0;
}

/// The order in which a Loader reads @p data: of (seed, epoch), and where there are buckets, of the
/// batch. Up to EpochOrder::most_in_table samples it is shuffled_order(), of more a
/// KeyedPermutation; in buckets, whose lengths must be sorted, bucketed_order().
/// @throws std::bad_alloc
template <Dataset D>
[[nodiscard]] EpochOrder epoch_order(D const& data, LoaderOptions const& options) {
  if constexpr (BucketedDataset<D>) {
    if (detail::is_in_buckets(data, options)) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(data.size()));
      bucketed_order(
          order, [&](std::int64_t sample) { return detail::bucket_of_sample(data, sample); },
          data.buckets(), options.batch, options.seed, options.epoch);
      return EpochOrder{std::move(order)};
    }
  }
  return detail::order_without_buckets(data.size(), options);
}

/// The share of the rows of an epoch's batches, of both inputs if there are two, that is padding;
/// no sample is read.
template <Dataset D>
  requires SequenceDataset<D> || PairDataset<D>
[[nodiscard]] double padding_share(D const& data, LoaderOptions const& options) {
  EpochOrder const order = epoch_order(data, checked(options, data.size()));
  double rows = 0.0;
  double own = 0.0;
  auto const count = [&](std::int64_t first, std::int64_t end, int most, auto const& length_of) {
    int longest = 1;
    for (std::int64_t position = first; position < end; ++position) {
      int const length = length_of(order[position]);
      own += length;
      longest = std::max(longest, length);
    }
    rows += detail::rows_of_batch(data, longest, most) * static_cast<double>(end - first);
  };
  std::int64_t first = options.first;
  for (std::int64_t left = data.size() - first;
       left >= options.batch || (left > 0 && !options.drop_last); left = data.size() - first) {
    std::int64_t const end = first + std::min<std::int64_t>(options.batch, left);
    count(first, end, data.shape()[0], [&](std::int64_t sample) { return data.length(sample); });
    if constexpr (PairDataset<D>) {
      count(first, end, data.second_shape()[0],
            [&](std::int64_t sample) { return data.second_length(sample); });
    }
    first = end;
  }
  return rows > 0.0 ? 1.0 - own / rows : 0.0;
}

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem::detail {

TANDEM_ONCE EpochOrder order_without_buckets(std::int64_t size, LoaderOptions const& options) {
  if (!options.shuffle) {
    return EpochOrder{size};
  }
  if (size > EpochOrder::most_in_table) {
    return EpochOrder{KeyedPermutation{size, options.seed, options.epoch}};
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  shuffled_order(order, options.seed, options.epoch);
  return EpochOrder{std::move(order)};
}

TANDEM_ONCE void order_batches(std::span<std::int64_t> order,
                               std::vector<std::vector<std::int64_t>> const& buckets, int batch,
                               std::uint64_t seed, std::int64_t epoch) {
  auto const size = static_cast<std::size_t>(batch);
  std::vector<std::int64_t> sorted;
  std::vector<std::int64_t> rest;
  sorted.reserve(order.size());
  for (std::vector<std::int64_t> const& own : buckets) {
    auto const whole = own.begin() + static_cast<std::ptrdiff_t>(own.size() / size * size);
    sorted.insert(sorted.end(), own.begin(), whole);
    rest.insert(rest.end(), whole, own.end());
  }
  sorted.insert(sorted.end(), rest.begin(), rest.end());
  std::vector<std::int64_t> batches(order.size() / size);
  shuffled_order(batches, seed, epoch + (std::int64_t{1} << 32));  // no epoch's own numbers
  std::size_t to = 0;
  for (std::int64_t const from : batches) {
    auto const begin = sorted.begin() + static_cast<std::ptrdiff_t>(from) * batch;
    std::copy_n(begin, size, order.begin() + static_cast<std::ptrdiff_t>(to));
    to += size;
  }
  std::copy(sorted.begin() + static_cast<std::ptrdiff_t>(to), sorted.end(),
            order.begin() + static_cast<std::ptrdiff_t>(to));
}

}  // namespace tandem::detail

#endif
