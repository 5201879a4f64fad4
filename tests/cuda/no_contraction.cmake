# Compiles SOURCE with the flags of cuda/CMakeLists.txt, and fails when the code holds a fused multiply-add or a
# product or sum that a later step may still fuse.
execute_process(COMMAND ${NVCC} -std=c++20 -O3 -fmad=false --expt-relaxed-constexpr -arch=compute_80 -ptx -I${INCLUDE}
                        ${SOURCE} -o ${OUTPUT} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "${SOURCE} does not compile")
endif()
file(STRINGS ${OUTPUT} fusible REGEX "(fma|mad)\\.[a-z.]*f(32|64)|(mul|add|sub)\\.(ftz\\.)?f(32|64)")
file(STRINGS ${OUTPUT} products REGEX "(mul|div)\\.rn\\.f32")
list(LENGTH products count)
if(fusible OR count EQUAL 0)
  message(FATAL_ERROR "${SOURCE}: ${count} separate products; to be fused: ${fusible}")
endif()
