// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which sanitizer a test is compiled with: g++ says it by macros, clang by __has_feature.

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TANDEM_TEST_SANITIZED 1
#else
#define TANDEM_TEST_SANITIZED 0
#endif
