// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trace: one step's actions and collectives on a time line, for chrome://tracing and Perfetto.

#include <span>
#include <string>
#include <vector>

#include <tandem/core/config.hpp>
#include <tandem/engine/step/tracer.hpp>
#include <tandem/io/atomic/file.hpp>
#include <tandem/io/json/string.hpp>

namespace tandem {

/// What Trainer::trace_step() gives back; a process a rank, a thread a lane.
struct Trace {
  std::vector<TraceEvent> events{};

  /// The Trace Event Format's JSON object form, with complete events.
  TANDEM_ONCE [[nodiscard]] std::string json() const;

  /// @throws FileError  @p path cannot be written
  TANDEM_ONCE void write(std::string const& path) const;
};

}  // namespace tandem

#if TANDEM_BODIES

namespace tandem {

TANDEM_ONCE std::string Trace::json() const {
  std::string text = "{\"traceEvents\": [";
  char const* separator = "\n";
  for (TraceEvent const& event : events) {
    bool const computes = event.lane == Lane::compute;
    text.append(separator).append("{\"name\": ");
    detail::append_json_string(text, event.name);
    text.append(", \"cat\": ").append(computes ? "\"compute\"" : "\"communication\"");
    text.append(", \"ph\": \"X\", \"pid\": ").append(std::to_string(event.rank));
    text.append(", \"tid\": ").append(computes ? "0" : "1");
    text.append(", \"ts\": ").append(std::to_string(event.begin_us));
    text.append(", \"dur\": ").append(std::to_string(event.end_us - event.begin_us)).append("}");
    separator = ",\n";
  }
  return text + "\n]}\n";
}

TANDEM_ONCE void Trace::write(std::string const& path) const {
  std::string const text = json();
  AtomicFile file{path};
  file.write(std::as_bytes(std::span{text}));
  file.commit();
}

}  // namespace tandem

#endif
