// SPDX-License-Identifier: Apache-2.0

/// @file
/// Macros that instantiate a template or declare it to be instantiated elsewhere, as
/// TANDEM_INSTANCE is `template` or `extern template`. Who includes this header undefines them, so
/// it has no `#pragma once`.

// One function template.
#define TANDEM_INSTANCE_OF(...) TANDEM_INSTANCE decltype(__VA_ARGS__) __VA_ARGS__;

// A rank, with all parts that it may have, of the backend that comes last. Its communicator is C,
// its samples are of type In and have labels. No other unit looks into its parts.
#define TANDEM_RANK_OF(C, In, ...)                                                                 \
  template <>                                                                                      \
  inline constexpr bool                                                                            \
      rank_is_shared<__VA_ARGS__, C, StepBatch<__VA_ARGS__::Master, std::int32_t, In>> = true;     \
  TANDEM_INSTANCE std::unique_ptr<RankInterface<StepBatch<__VA_ARGS__::Master, std::int32_t, In>>> \
  construct_rank<Rank<RankCore<__VA_ARGS__, C, shared_rank_way<C>()>,                              \
                      StepBatch<__VA_ARGS__::Master, std::int32_t, In>>,                           \
                 StepBatch<__VA_ARGS__::Master, std::int32_t, In>>(                                \
      RankProgram<__VA_ARGS__, std::int32_t> const&, RankPlan, RankOptions const&,                 \
      RankEnds<C> const&);
