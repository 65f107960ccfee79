// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// DataSource: a dataset of whatever type, for loops over batches that are compiled once.

#include <tandem/data/dataset.hpp>
#include <tandem/data/loader_options.hpp>
#include <tandem/data/sample_source.hpp>
#include <tandem/train/options/batch_check.hpp>
#include <tandem/train/options/loader_options.hpp>

namespace tandem {

/// @tparam In  of the network's input
template <class In, class Target>
class DataSource : public SampleSource<In, Target> {
 public:
  [[nodiscard]] virtual SampleShapes shapes() const = 0;
  /// Whether an epoch begins with the states that the one before has ended with.
  [[nodiscard]] virtual bool epochs_go_on() const = 0;
  /// As tandem::in_streams(), for a network with Stateful layers.
  [[nodiscard]] virtual LoaderOptions in_streams(LoaderOptions const& order,
                                                 bool training) const = 0;
};

template <Dataset D, class In>
class DataSourceOf final : public SampleSourceOf<D, In, DataSource<In, typename D::Target>> {
 public:
  using SampleSourceOf<D, In, DataSource<In, typename D::Target>>::SampleSourceOf;

  [[nodiscard]] SampleShapes shapes() const override {
    SampleShapes shapes{.input = this->data_.shape(), .targets = this->data_.targets()};
    if constexpr (PairDataset<D>) {
      shapes.second = this->data_.second_shape();
    }
    return shapes;
  }
  [[nodiscard]] bool epochs_go_on() const override {
    if constexpr (requires { D::epochs_go_on; }) {
      return D::epochs_go_on;
    } else {
      return false;
    }
  }
  [[nodiscard]] LoaderOptions in_streams(LoaderOptions const& order, bool training) const override {
    return tandem::in_streams(order, this->data_, training);
  }
};

}  // namespace tandem
