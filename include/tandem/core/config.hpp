// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a compiler must be told, version, and the attributes that the library spells as macros.
///
/// Macros are defined here, in bodies.hpp and in contract.hpp only. None of them changes the body
/// of a type or of a function, so that units of a program may be compiled by different compilers.

// The include that there is not ends the compilation, so that no other error hides the sentence.
#if __cplusplus < 202002L
#error "tandem is C++20: compile with -std=c++20"
#include <see the error above>
#elif !defined(__cpp_exceptions) && !defined(__CUDA_ARCH__)
#error "tandem throws exceptions: compile without -fno-exceptions"
#include <see the error above>
#elif !defined(__cpp_rtti) && !defined(__CUDA_ARCH__)
#error "tandem tells exceptions apart by their types: compile without -fno-rtti"
#include <see the error above>
#elif defined(A) || defined(B) || defined(C) || defined(D) || defined(E) || defined(F) || \
    defined(G) || defined(H) || defined(I) || defined(K) || defined(L) || defined(M) ||   \
    defined(N) || defined(O) || defined(P) || defined(R) || defined(S) || defined(T) ||   \
    defined(U) || defined(V) || defined(W) || defined(X) || defined(Y)
#error \
    "a macro has the name of one capital letter, as names in this header have: include <tandem/tandem.hpp>, which sets such macros aside, or define it behind the includes"
#include <see the error above>
#endif

#include <tandem/core/bodies.hpp>

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 2
#define TANDEM_VERSION_PATCH 0

/// The version as one number, which only rises: 200 is 0.2.0, 10203 would be 1.2.3.
#define TANDEM_VERSION \
  (TANDEM_VERSION_MAJOR * 10000 + TANDEM_VERSION_MINOR * 100 + TANDEM_VERSION_PATCH)

/// Marks what device code may call: nothing to a plain C++ compiler.
#if defined(__CUDACC__)
#define TANDEM_HOST_DEVICE __host__ __device__
#else
#define TANDEM_HOST_DEVICE
#endif

/// Marks a kernel: `template <class T> TANDEM_KERNEL void scale_kernel(...)`. Hidden, so that two
/// shared libraries that instantiate one kernel each launch their own. Nothing to plain C++. Not
/// for kernels in unnamed namespaces, which are hidden anyway.
#if defined(__CUDACC__)
#define TANDEM_KERNEL __attribute__((visibility("hidden"))) __global__
#else
#define TANDEM_KERNEL
#endif

/// Whether this compiler translates kernels. Plain C++ reads them, so that tandem/cuda.cuh can be
/// included by files whose kernels another unit has; it must not instantiate one.
#if defined(__CUDACC__) || defined(TANDEM_CUDA_EMULATED)
#define TANDEM_DEVICE_CODE 1
#define TANDEM_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define TANDEM_DEVICE_CODE 0
#define TANDEM_LAUNCH_BOUNDS(threads, blocks)
#endif

/// A function of its own even where the optimiser would inline it: one for each stage and pass, and
/// kernels whose bits must not depend on their caller. TANDEM_INLINE is the opposite: a rank's
/// switch over its actions.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define TANDEM_NOINLINE __attribute__((noinline, noclone))  // a clone's calls would cost more
#define TANDEM_INLINE __attribute__((always_inline)) inline
#elif defined(__GNUC__) || defined(__clang__)
#define TANDEM_NOINLINE __attribute__((noinline))
#define TANDEM_INLINE __attribute__((always_inline)) inline
#else
#define TANDEM_NOINLINE
#define TANDEM_INLINE inline
#endif

/// Code that runs once a program, as plans, checks and sentences: compiled for size, which takes
/// g++ a quarter less time. Nothing that a step comes to on all its ways, nor what users call: what
/// must come to a cold call is compiled for size, too.
#if defined(__GNUC__) || defined(__clang__)
#define TANDEM_COLD __attribute__((cold, noinline))
#else
#define TANDEM_COLD
#endif
