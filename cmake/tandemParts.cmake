# SPDX-License-Identifier: Apache-2.0
# The other libraries that tandem::tandem can use, in the tree and by find_package(tandem): each is a target tandem::<part>,
# which is made if the option TANDEM_<PART> is ON or AUTO and the library is found.

set(tandem_parts zlib onednn sentencepiece images)
set(folder "the folder that has include/ and lib/ may be given in CMAKE_PREFIX_PATH")
set(tandem_zlib_missing "tandem's zlib is wanted, but zlib is not found: install zlib1g-dev; ${folder}")
set(tandem_onednn_missing
    "tandem's onednn is wanted, but oneapi/dnnl/dnnl.h or libdnnl is not found: install libdnnl-dev; ${folder}")
set(tandem_sentencepiece_missing "tandem's sentencepiece is wanted, but sentencepiece_trainer.h, libsentencepiece or \
libsentencepiece_train is not found: install libsentencepiece-dev; ${folder}")
set(tandem_images_missing "tandem's images are wanted, but libjpeg or libpng is not found: install libjpeg-dev and \
libpng-dev; ${folder}")
unset(folder)

# `default` counts if the option is empty. Sets tandem_<part>_wanted in the caller's scope if the option is ON.
function(tandem_find_part part default)
  string(TOUPPER TANDEM_${part} option)
  string(TOUPPER "${${option}}" wish)
  if(wish STREQUAL "")
    set(wish ${default})
  endif()
  if(NOT wish STREQUAL AUTO)
    if(NOT wish)
      return()
    endif()
    set(tandem_${part}_wanted ON PARENT_SCOPE)
  endif()
  if(TARGET tandem::${part})
    return()
  endif()

  set(libraries "")
  set(folders "")
  if(part STREQUAL zlib)
    find_package(ZLIB QUIET)
    if(ZLIB_FOUND)
      set(libraries ${ZLIB_LIBRARIES})
      set(folders ${ZLIB_INCLUDE_DIRS})
    endif()
  elseif(part STREQUAL onednn)
    # Not find_package(dnnl): Debian's insists on OpenCL. OpenMP, on whose threads oneDNN computes, lets a device's other
    # kernels run on the same ones.
    find_path(TANDEM_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h)
    find_library(TANDEM_ONEDNN_LIBRARY dnnl)
    mark_as_advanced(TANDEM_ONEDNN_INCLUDE_DIR TANDEM_ONEDNN_LIBRARY)
    if(TANDEM_ONEDNN_INCLUDE_DIR AND TANDEM_ONEDNN_LIBRARY)
      find_package(OpenMP QUIET COMPONENTS CXX)
      set(libraries ${TANDEM_ONEDNN_LIBRARY})
      if(TARGET OpenMP::OpenMP_CXX)
        list(APPEND libraries OpenMP::OpenMP_CXX)
      endif()
      set(folders ${TANDEM_ONEDNN_INCLUDE_DIR})
    endif()
  elseif(part STREQUAL sentencepiece)  # Debian's library brings no CMake package
    find_path(TANDEM_SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h)
    find_library(TANDEM_SENTENCEPIECE_LIBRARY sentencepiece)
    find_library(TANDEM_SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
    mark_as_advanced(TANDEM_SENTENCEPIECE_INCLUDE_DIR TANDEM_SENTENCEPIECE_LIBRARY
                     TANDEM_SENTENCEPIECE_TRAIN_LIBRARY)
    if(TANDEM_SENTENCEPIECE_INCLUDE_DIR AND TANDEM_SENTENCEPIECE_LIBRARY AND TANDEM_SENTENCEPIECE_TRAIN_LIBRARY)
      set(libraries ${TANDEM_SENTENCEPIECE_TRAIN_LIBRARY} ${TANDEM_SENTENCEPIECE_LIBRARY})
      set(folders ${TANDEM_SENTENCEPIECE_INCLUDE_DIR})
    endif()
  elseif(part STREQUAL images)
    find_package(JPEG QUIET)
    find_package(PNG QUIET)
    if(JPEG_FOUND AND PNG_FOUND)
      set(libraries ${JPEG_LIBRARIES} ${PNG_LIBRARIES})
      set(folders ${JPEG_INCLUDE_DIRS} ${PNG_INCLUDE_DIRS})
    endif()
  endif()
  if(libraries)
    add_library(tandem::${part} INTERFACE IMPORTED GLOBAL)
    target_include_directories(tandem::${part} SYSTEM INTERFACE ${folders})
    target_link_libraries(tandem::${part} INTERFACE ${libraries})
    target_compile_definitions(tandem::${part} INTERFACE ${option}=1)
  endif()
endfunction()

# In a project of its user nobody but CMake knows that no optimisation was asked for.
function(tandem_warn_if_unoptimized)
  get_property(is_multi GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  if(NOT is_multi AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CXX_FLAGS MATCHES "(^| )-O")
    message(WARNING "CMAKE_BUILD_TYPE is empty, so that the compiler optimises nothing, and training takes many times as "
                    "long: configure with -DCMAKE_BUILD_TYPE=Release; for this machine's processor link tandem::native, too")
  endif()
endfunction()
