# The libraries weft ships: oneDNN and OpenBLAS, both from PyPI, and libgomp, which oneDNN needs.
#
# Nothing is linked: core opens them on first use from the folder lib/ beside _core. What this file
# gives is that folder, the headers, and the definitions WEFT_WITH_ONEDNN and WEFT_WITH_OPENBLAS.
#
#   weft_native_libraries             target with headers and definitions; empty without libraries
#   install_native_libraries(folder)  puts copies, with their licences, into the wheel
#   link_native_libraries(folder)     links to them from a package folder in the working tree

add_library(weft_native_libraries INTERFACE)
set(native_library_files "")

function(use_native_library name)
  if(NOT ${name}_LIBRARY)
    message(STATUS "weft: ${name} not found, building without it")
    return()
  endif()
  message(STATUS "weft: ${name} is ${${name}_LIBRARY}")
  target_include_directories(weft_native_libraries SYSTEM INTERFACE "${${name}_INCLUDE}")
  target_compile_definitions(weft_native_libraries INTERFACE WEFT_WITH_${name}=1)
  set(native_library_files ${native_library_files} "${${name}_LIBRARY}" PARENT_SCOPE)
endfunction()

if(WEFT_WITH_LIBRARIES)
  execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/find_native_libraries.py
                  OUTPUT_VARIABLE found_libraries COMMAND_ERROR_IS_FATAL ANY)
  cmake_language(EVAL CODE "${found_libraries}")
  use_native_library(ONEDNN)
  use_native_library(OPENBLAS)
  if(ONEDNN_LIBRARY)
    # Not every machine that only runs weft has gcc's OpenMP runtime.
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.so.1
                    OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(EXISTS "${gomp}")
      list(APPEND native_library_files "${gomp}")
    endif()
  endif()
endif()

# A file keeps the name it is asked for: libgomp.so.1, although that is a link to libgomp.so.1.0.0.
function(install_native_libraries folder)
  foreach(library IN LISTS native_library_files)
    get_filename_component(name "${library}" NAME)
    get_filename_component(file "${library}" REALPATH)
    install(FILES "${file}" RENAME "${name}" DESTINATION ${folder} COMPONENT python)
  endforeach()
  install(FILES ${ONEDNN_LICENSES} DESTINATION ${folder}/licenses/onednn COMPONENT python)
  install(FILES ${OPENBLAS_LICENSES} DESTINATION ${folder}/licenses/openblas COMPONENT python)
endfunction()

function(link_native_libraries folder)
  file(REMOVE_RECURSE "${folder}")
  foreach(library IN LISTS native_library_files)
    file(MAKE_DIRECTORY "${folder}")
    get_filename_component(name "${library}" NAME)
    get_filename_component(file "${library}" REALPATH)
    file(CREATE_LINK "${file}" "${folder}/${name}" SYMBOLIC)
  endforeach()
endfunction()
