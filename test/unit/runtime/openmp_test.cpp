// SPDX-License-Identifier: Apache-2.0
#include <tandem/runtime/host/openmp.hpp>

#include <cstdint>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <tandem/runtime/host/team.hpp>

#if defined(_OPENMP)
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace openmp_test {

using tandem::host::Team;

#if !defined(_OPENMP)

TEST_CASE("a program without OpenMP has no OpenMp") {
  CHECK_FALSE(static_cast<bool>(tandem::host::openmp.fork));
  CHECK_FALSE(static_cast<bool>(tandem::host::openmp.set_threads));
}

#else

/// The thread that did each of size() indices.
std::vector<std::thread::id> members_of(Team& team) {
  std::vector<std::thread::id> ids(static_cast<std::size_t>(team.size()));
  team.parallel_for(team.size(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ids[static_cast<std::size_t>(i)] = std::this_thread::get_id();
    }
  });
  return ids;
}

/// f() on a thread that has started no OpenMP loop yet.
template <class F>
void on_new_thread(F const& f) {
  std::thread{f}.join();
}

TEST_CASE("a team's members are those of the OpenMP loops that its thread starts") {
  on_new_thread([] {
    Team team{3};
    std::vector<std::thread::id> const ids = members_of(team);
    std::vector<std::thread::id> theirs(3);
#pragma omp parallel
    { theirs[static_cast<std::size_t>(omp_get_thread_num())] = std::this_thread::get_id(); }
    CHECK(ids == theirs);
    CHECK(members_of(team) == ids);
    CHECK(ids[0] != ids[1]);
    CHECK(ids[1] != ids[2]);
  });
}

TEST_CASE("a team sets the number of threads of its own thread and of no other") {
  on_new_thread([] {
    int const before = omp_get_max_threads();
    Team const outer{before + 3};
    CHECK(omp_get_max_threads() == before + 3);
    on_new_thread([before] {
      CHECK(omp_get_max_threads() == before);
      Team const inner{1};
      CHECK(omp_get_max_threads() == 1);
    });
    CHECK(omp_get_max_threads() == before + 3);
  });
}

TEST_CASE("a team keeps its size when its thread's number of threads is changed") {
  on_new_thread([] {
    Team team{3};
    auto const before = members_of(team);
    omp_set_num_threads(1);
    CHECK(members_of(team) == before);
  });
}

TEST_CASE("two devices have two teams") {
  std::vector<std::thread::id> first;
  std::vector<std::thread::id> second;
  on_new_thread([&] {
    Team team{2};
    first = members_of(team);
    on_new_thread([&] {
      Team other{2};
      second = members_of(other);
    });
    CHECK(members_of(team) == first);
  });
  CHECK(first[0] != second[0]);
  CHECK(first[1] != second[1]);
  CHECK(first[1] != second[0]);
}

TEST_CASE("all parts are done where OpenMP gives fewer threads than asked for") {
  on_new_thread([] {
    int const levels = omp_get_max_active_levels();
    omp_set_max_active_levels(1);
    int inner = 0;
    std::vector<std::thread::id> ids;
    std::thread::id caller;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
      inner = omp_get_num_threads();
      caller = std::this_thread::get_id();
      Team team{5};
      ids = members_of(team);  // a loop in a loop: one thread
    }
    omp_set_max_active_levels(levels);
    CHECK(inner == 2);
    CHECK(ids == std::vector<std::thread::id>(5, caller));
  });
}

TEST_CASE("with a forked process's own threads a new team works, and the parent's goes on") {
  on_new_thread([] {
    Team team{2};
    std::vector<std::thread::id> const before = members_of(team);
    pid_t const child = fork();
    if (child == 0) {
      alarm(20);
      int done = 0;
      on_new_thread([&done] {
        Team own{2};
        done = members_of(own).size() == 2 ? 1 : 0;
      });
      _exit(done == 1 ? 7 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
    CHECK(members_of(team) == before);
  });
}

#endif

}  // namespace openmp_test
