# Finds the tracker in a checkout that `cargo build --release -p ttmem-c` was run in. Targets: ttmem::static, ttmem::shared.
# TTMEM_LIBRARY_DIR names another folder with libttmem.a and libttmem.so.

get_filename_component(_ttmem_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(_ttmem_places ${TTMEM_LIBRARY_DIR} ${_ttmem_root}/target/release ${_ttmem_root}/target/debug)

find_library(TTMEM_STATIC_LIBRARY libttmem.a PATHS ${_ttmem_places} NO_DEFAULT_PATH)
find_library(TTMEM_SHARED_LIBRARY NAMES libttmem.so libttmem.dylib PATHS ${_ttmem_places} NO_DEFAULT_PATH)
find_package(Threads REQUIRED)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ttmem
    REQUIRED_VARS TTMEM_STATIC_LIBRARY TTMEM_SHARED_LIBRARY
    REASON_FAILURE_MESSAGE "run `cargo build --release -p ttmem-c` in ${_ttmem_root}, or set TTMEM_LIBRARY_DIR")

if(ttmem_FOUND AND NOT TARGET ttmem::static)
    add_library(ttmem::static STATIC IMPORTED)
    set_target_properties(ttmem::static PROPERTIES
        IMPORTED_LOCATION "${TTMEM_STATIC_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${_ttmem_root}/include"
        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
    add_library(ttmem::shared SHARED IMPORTED)
    set_target_properties(ttmem::shared PROPERTIES
        IMPORTED_LOCATION "${TTMEM_SHARED_LIBRARY}"
        IMPORTED_NO_SONAME TRUE
        INTERFACE_INCLUDE_DIRECTORIES "${_ttmem_root}/include")
endif()
