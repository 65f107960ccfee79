# SPDX-License-Identifier: Apache-2.0
# Stands for the functions of vcpkg that the port calls, and runs its steps.
#   cmake -DPORTFILE=... -DCURRENT_PACKAGES_DIR=... -DBUILD=... -DCMAKE_CXX_COMPILER=... -P stand_in_vcpkg.cmake
cmake_minimum_required(VERSION 3.23)
set(PORT tandem)

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${BUILD} ${arg_OPTIONS} -DCMAKE_BUILD_TYPE=Release
                          -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${CURRENT_PACKAGES_DIR} COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_QUIET)
endfunction()

# Moves the package to share/tandem, and says there that the prefix is two folders above.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" CONFIG_PATH "")
  set(share ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(RENAME ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH} ${share})
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/share/cmake)
  file(READ ${share}/tandemTargets.cmake text)
  set(up "get_filename_component(_IMPORT_PREFIX \"\${_IMPORT_PREFIX}\" PATH)\n")
  string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
  file(WRITE ${share}/tandemTargets.cmake "${text}")
endfunction()

function(vcpkg_fixup_pkgconfig)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
  file(INSTALL ${arg_FILE_LIST} DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT} RENAME copyright)
endfunction()

include(${PORTFILE})
