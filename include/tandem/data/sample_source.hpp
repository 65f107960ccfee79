// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// SampleSource: a dataset of whatever type, for code that is compiled once.

#include <cstddef>
#include <cstdint>
#include <memory>

#include <tandem/core/shape.hpp>
#include <tandem/data/batch_reader.hpp>
#include <tandem/data/buckets.hpp>
#include <tandem/data/dataset.hpp>
#include <tandem/data/epoch_order.hpp>
#include <tandem/data/loader_options.hpp>

namespace tandem {

/// @tparam Scalar  what samples are converted to
template <class Scalar, class Target>
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual Shape shape() const = 0;
  /// epoch_order_bytes() and epoch_order()
  [[nodiscard]] virtual std::size_t order_bytes(LoaderOptions const& options) const = 0;
  [[nodiscard]] virtual EpochOrder order(LoaderOptions const& options) const = 0;
  /// One for each thread that reads.
  [[nodiscard]] virtual std::unique_ptr<SampleReader<Scalar, Target>> reader(
      LoaderOptions const& options) const = 0;
};

/// What is the same for a dataset wherever it is read. @tparam Base  a SampleSource
template <Dataset D, class Scalar, class Base = SampleSource<Scalar, typename D::Target>>
class SampleSourceOf : public Base {
 public:
  /// @param data  outlives this, and what it gives
  explicit SampleSourceOf(D const& data) : data_{data} {}

  [[nodiscard]] std::int64_t size() const override { return data_.size(); }
  [[nodiscard]] Shape shape() const override { return data_.shape(); }
  [[nodiscard]] std::size_t order_bytes(LoaderOptions const& options) const override {
    return epoch_order_bytes(data_, options);
  }
  [[nodiscard]] EpochOrder order(LoaderOptions const& options) const override {
    return epoch_order(data_, options);
  }
  [[nodiscard]] std::unique_ptr<SampleReader<Scalar, typename D::Target>> reader(
      LoaderOptions const& options) const override {
    return std::make_unique<BatchReader<D, Scalar>>(data_, options.augment, options.seed,
                                                    options.epoch);
  }

 protected:
  D const& data_;
};

}  // namespace tandem
