// SPDX-License-Identifier: Apache-2.0

#include "fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

#include <support/sanitizers.hpp>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_emulator {
namespace {

constexpr std::size_t guard_bytes = 4096;

#if defined(__x86_64__)

// Saves the registers that a call preserves on this stack, stores it, and goes on on the other.
extern "C" void cuda_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl cuda_emulator_switch
.hidden cuda_emulator_switch
.type cuda_emulator_switch, @function
cuda_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_emulator_switch, .-cuda_emulator_switch

.globl cuda_emulator_first
.hidden cuda_emulator_first
.type cuda_emulator_first, @function
cuda_emulator_first:
  movq %r12, %rdi
  callq *%r13
  ud2
.size cuda_emulator_first, .-cuda_emulator_first
)");
extern "C" void cuda_emulator_first();

#endif

}  // namespace

struct Fiber::Context {
  char* mapping = nullptr;  // a guard page, then the stack
#if defined(__x86_64__)
  void* inside = nullptr;
  void* outside = nullptr;
#else
  ucontext_t inside;
  ucontext_t outside;
#endif
  void* fake_inside = nullptr;  // the address sanitizer's
  void* fake_outside = nullptr;
  void const* host_stack = nullptr;
  std::size_t host_bytes = 0;

  char* stack() const { return mapping + guard_bytes; }
};

Fiber::Fiber(void (*entry)(Fiber*)) : context_{std::make_unique<Context>()}, entry_{entry} {
  Context& c = *context_;
  void* const memory = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc{};
  }
  c.mapping = static_cast<char*>(memory);
  mprotect(memory, guard_bytes, PROT_NONE);
#if defined(__x86_64__)
  auto* top = reinterpret_cast<void**>(c.stack() + stack_bytes);
  *--top = nullptr;  // keeps the stack aligned at the first call
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(&cuda_emulator_first);
  *--top = nullptr;                                 // rbp
  *--top = nullptr;                                 // rbx
  *--top = this;                                    // r12
  *--top = reinterpret_cast<void*>(&Fiber::start);  // r13
  *--top = nullptr;                                 // r14
  *--top = nullptr;                                 // r15
  c.inside = top;
#else
  getcontext(&c.inside);
  c.inside.uc_stack.ss_sp = c.stack();
  c.inside.uc_stack.ss_size = stack_bytes;
  c.inside.uc_link = nullptr;
  auto const address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&c.inside, reinterpret_cast<void (*)()>(+[](unsigned low, unsigned high) {
    start(reinterpret_cast<void*>((static_cast<std::uintptr_t>(high) << 32) | low));
  }),
              2, static_cast<unsigned>(address), static_cast<unsigned>(address >> 32));
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_ADDRESS__)
  // Functions that never returned have left their marks on the addresses.
  ASAN_UNPOISON_MEMORY_REGION(context_->stack(), stack_bytes);
#endif
  munmap(context_->mapping, guard_bytes + stack_bytes);
}

void Fiber::start(void* fiber) {
  auto* const self = static_cast<Fiber*>(fiber);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->context_->host_stack,
                                  &self->context_->host_bytes);
#endif
  self->entry_(self);
  __builtin_trap();
}

void Fiber::enter() {
  Context& c = *context_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&c.fake_outside, c.stack(), stack_bytes);
#endif
#if defined(__x86_64__)
  cuda_emulator_switch(&c.outside, c.inside);
#else
  swapcontext(&c.outside, &c.inside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(c.fake_outside, nullptr, nullptr);
#endif
}

void Fiber::leave() {
  Context& c = *context_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&c.fake_inside, c.host_stack, c.host_bytes);
#endif
#if defined(__x86_64__)
  cuda_emulator_switch(&c.inside, c.outside);
#else
  swapcontext(&c.inside, &c.outside);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(c.fake_inside, &c.host_stack, &c.host_bytes);
#endif
}

}  // namespace cuda_emulator
