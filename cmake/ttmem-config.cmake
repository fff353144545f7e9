# Finds the tracker for C and C++. Targets: ttmem::static, ttmem::shared.
#
# In a release, this file is PREFIX/lib/cmake/ttmem/ttmem-config.cmake. In a checkout, run
# `cargo build --profile dist -p ttmem-c` first. To use libttmem.a and libttmem.so from another folder, set
# TTMEM_LIBRARY_DIR.

if(CMAKE_CURRENT_LIST_DIR MATCHES "/lib/cmake/ttmem$")
    get_filename_component(_ttmem_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
    set(_ttmem_places ${TTMEM_LIBRARY_DIR} ${_ttmem_root}/lib)
    set(_ttmem_hint "${_ttmem_root}/lib does not contain libttmem. Unpack the release again, or set TTMEM_LIBRARY_DIR.")
else()
    get_filename_component(_ttmem_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
    set(_ttmem_places ${TTMEM_LIBRARY_DIR} ${_ttmem_root}/target/dist ${_ttmem_root}/target/release ${_ttmem_root}/target/debug)
    set(_ttmem_hint "run `cargo build --profile dist -p ttmem-c` in ${_ttmem_root}, or set TTMEM_LIBRARY_DIR")
endif()

find_library(TTMEM_STATIC_LIBRARY libttmem.a PATHS ${_ttmem_places} NO_DEFAULT_PATH)
find_library(TTMEM_SHARED_LIBRARY NAMES libttmem.so libttmem.dylib PATHS ${_ttmem_places} NO_DEFAULT_PATH)
find_package(Threads REQUIRED)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ttmem
    REQUIRED_VARS TTMEM_STATIC_LIBRARY TTMEM_SHARED_LIBRARY
    REASON_FAILURE_MESSAGE "${_ttmem_hint}")

if(ttmem_FOUND AND TTMEM_STATIC_LIBRARY MATCHES "/target/(release|debug)/")
    message(STATUS "ttmem: this build of the tracker is not optimized; run `cargo build --profile dist -p ttmem-c`")
endif()

if(ttmem_FOUND AND NOT TARGET ttmem::static)
    add_library(ttmem::static STATIC IMPORTED)
    set_target_properties(ttmem::static PROPERTIES
        IMPORTED_LOCATION "${TTMEM_STATIC_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${_ttmem_root}/include"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
    add_library(ttmem::shared SHARED IMPORTED)
    set_target_properties(ttmem::shared PROPERTIES
        IMPORTED_LOCATION "${TTMEM_SHARED_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${_ttmem_root}/include")
endif()
