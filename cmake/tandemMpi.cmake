# SPDX-License-Identifier: Apache-2.0
# Makes the target tandem::mpi if an MPI is found: of the tree, and of find_package(tandem COMPONENTS mpi). Found by its C++
# compiler wrapper, since the project has no C; only the C functions are called, and MPI's own C++ ones are left out.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
if(NOT TARGET MPI::MPI_CXX OR TARGET tandem::mpi)
  return()
endif()
if(TARGET tandem)
  add_library(tandem_mpi INTERFACE)
  add_library(tandem::mpi ALIAS tandem_mpi)
  target_link_libraries(tandem_mpi INTERFACE tandem::tandem MPI::MPI_CXX)
else()
  add_library(tandem::mpi INTERFACE IMPORTED)
  target_link_libraries(tandem::mpi INTERFACE tandem::tandem MPI::MPI_CXX)
endif()
