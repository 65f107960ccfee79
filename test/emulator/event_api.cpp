// SPDX-License-Identifier: Apache-2.0
// cudaEvent* and cudaStreamWaitEvent: marks in streams, and how captures fork and join.

#include <algorithm>
#include <utility>

#include "state.hpp"

using namespace cuda_emulator;

namespace {

CUevent_st* find_event(cudaEvent_t event) {
  auto const found = emulator().events.find(event);
  return found == emulator().events.end() ? nullptr : found->second.get();
}

bool captured(CUevent_st const& event) { return event.capture != nullptr && !event.capture->ended; }

cudaError_t record(CUevent_st& event, std::shared_ptr<CUstream_st> const& stream) {
  if (stream->capture != nullptr) {
    if (stream->capture->broken != cudaSuccess) {
      return cudaErrorStreamCaptureInvalidated;
    }
    event.mark = nullptr;
    event.capture = stream->capture;
    event.tails = stream->tails;
    return cudaSuccess;
  }
  if (event.device != stream->device) {
    return cudaErrorInvalidResourceHandle;
  }
  event.capture = nullptr;
  event.mark = std::make_shared<Mark>();
  event.mark->order = clock_at_end(*stream);
  append(stream, "event record", [mark = event.mark](Ticket const& ticket) -> Attempt {
    mark->ticket = ticket;
    return [mark] {
      mark->time = Clock::now();
      mark->reached = true;
      mark->ticket = {};  // so that a reached mark keeps no stream
      return true;
    };
  });
  return cudaSuccess;
}

// The stream waits for nodes of a capture: it joins the capture if it is in none.
cudaError_t wait_in_capture(CUstream_st& stream, CUevent_st const& event) {
  Capture& capture = *event.capture;
  if (capture.broken != cudaSuccess) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (stream.capture != nullptr && stream.capture != event.capture) {
    break_capture(*stream.capture, cudaErrorStreamCaptureMerge);
    return break_capture(capture, cudaErrorStreamCaptureMerge);
  }
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    capture.streams.push_back(&stream);
  }
  for (std::size_t const node : event.tails) {
    if (std::find(stream.tails.begin(), stream.tails.end(), node) == stream.tails.end()) {
      stream.tails.push_back(node);
    }
  }
  return cudaSuccess;
}

cudaError_t wait(std::shared_ptr<CUstream_st> const& stream, CUevent_st const& event) {
  if (event.capture != nullptr) {
    if (event.capture->ended) {
      return cudaErrorCapturedEvent;  // its last record was in a capture that is over
    }
    if (emulator().streams.count(stream.get()) == 0) {
      return break_capture(*event.capture, cudaErrorStreamCaptureImplicit);
    }
    return wait_in_capture(*stream, event);
  }
  if (event.mark == nullptr) {
    return cudaSuccess;  // never recorded: counts as reached
  }
  if (stream->capture != nullptr) {
    return break_capture(*stream->capture, cudaErrorStreamCaptureIsolation);
  }
  stream->clock.join(event.mark->order);
  append(stream, "wait for event", [mark = event.mark](Ticket const&) -> Attempt {
    return [mark] {
      Ticket const ticket = mark->ticket;
      return mark->reached || advance(ticket);
    };
  });
  return cudaSuccess;
}

// What every function that asks for an event's state checks first.
cudaError_t may_ask(CUevent_st const* event) {
  if (event == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (captured(*event)) {
    break_capture(*event->capture, cudaErrorCapturedEvent);
    return cudaErrorCapturedEvent;
  }
  if (event->capture != nullptr) {
    return cudaErrorCapturedEvent;
  }
  return check_no_capture();
}

cudaError_t failure_of(CUevent_st const& event) {
  auto const found = emulator().failures.find(event.device);
  return found == emulator().failures.end() ? cudaSuccess : found->second;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto const held = lock();
  constexpr unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~known) != 0) {
    return result(cudaErrorInvalidValue);
  }
  if (cudaError_t const status = device_failure(); status != cudaSuccess) {
    return result(status);
  }
  auto made = std::make_unique<CUevent_st>();
  made->device = current_device();
  made->flags = flags;
  *event = made.get();
  emulator().events.emplace(made.get(), std::move(made));
  return result(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  auto const held = lock();
  return result(emulator().events.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  auto const held = lock();
  CUevent_st* const found = find_event(event);
  auto const queue = find_stream(stream);
  if (found == nullptr || queue == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  return result(flags != cudaEventRecordDefault ? cudaErrorNotSupported : record(*found, queue));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  auto const held = lock();
  CUevent_st const* const found = find_event(event);
  auto const queue = find_stream(stream);
  if (found == nullptr || queue == nullptr) {
    return result(cudaErrorInvalidResourceHandle);
  }
  return result(flags != cudaEventWaitDefault ? cudaErrorNotSupported : wait(queue, *found));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto const held = lock();
  CUevent_st const* const found = find_event(event);
  if (cudaError_t const status = may_ask(found); status != cudaSuccess) {
    return result(status);
  }
  auto const mark = found->mark;
  if (mark != nullptr && !mark->reached) {
    Ticket const ticket = mark->ticket;
    if (!advance(ticket)) {
      return result(cudaErrorNotReady);
    }
  }
  if (mark != nullptr) {
    host_waited(mark->order);
  }
  return result(failure_of(*found));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto held = lock();
  CUevent_st const* const found = find_event(event);
  if (cudaError_t const status = may_ask(found); status != cudaSuccess) {
    return result(status);
  }
  int const device = found->device;
  auto const mark = found->mark;  // another thread may record the event anew, or destroy it
  if (mark != nullptr && !mark->reached) {
    Ticket const ticket = mark->ticket;
    force(held, ticket);
  }
  if (mark != nullptr) {
    host_waited(mark->order);
  }
  auto const failed = emulator().failures.find(device);
  return result(failed == emulator().failures.end() ? cudaSuccess : failed->second);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  auto const held = lock();
  CUevent_st const* const first = find_event(start);
  CUevent_st const* const second = find_event(end);
  if (milliseconds == nullptr || first == nullptr || second == nullptr ||
      ((first->flags | second->flags) & cudaEventDisableTiming) != 0 || first->mark == nullptr ||
      second->mark == nullptr || first->device != second->device) {
    return result(cudaErrorInvalidResourceHandle);
  }
  if (!first->mark->reached || !second->mark->reached) {
    return result(cudaErrorNotReady);
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(second->mark->time - first->mark->time).count();
  return result(cudaSuccess);
}

}  // extern "C"
