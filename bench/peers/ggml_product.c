// Time of one mxfp4 matrix [2304, 5120] times one token (activations as int8) with ggml's vector product, one
// thread; cold weights. Prints the best time that the thread ran, in milliseconds.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define ROWS 2304
#define COLS 5120
#define ROW_BYTES (COLS / 32 * 17)
#define COPIES 64

void quantize_row_q8_0(const float* x, void* y, int64_t n);
void ggml_vec_dot_mxfp4_q8_0(int n, float* s, size_t bs, const void* x, size_t bx, const void* y, size_t by,
                             int rows);

float ggml_table_f32_f16[1 << 16];  // for processors without F16C only

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void) {
  const size_t size = (size_t)ROWS * ROW_BYTES;
  uint8_t* weights = aligned_alloc(1 << 21, ((size * COPIES >> 21) + 1) << 21);
  madvise(weights, size * COPIES, MADV_HUGEPAGE);
  for (size_t i = 0; i < size * COPIES; ++i) weights[i] = i % 17 == 0 ? 120 : (uint8_t)(i * 2654435761u >> 13);
  static float x[COLS], y[ROWS];
  static uint8_t quantized[COLS / 32 * 34];
  for (int i = 0; i < COLS; ++i) x[i] = (float)((i * 37) % 101 - 50) / 25;
  quantize_row_q8_0(x, quantized, COLS);
  double best = 1e9;
  for (int k = 0; k < 4 * COPIES; ++k) {
    const uint8_t* w = weights + (size_t)(k % COPIES) * size;
    const double begin = now();
    for (int r = 0; r < ROWS; ++r) {
      ggml_vec_dot_mxfp4_q8_0(COLS, y + r, 0, w + (size_t)r * ROW_BYTES, 0, quantized, 0, 1);
    }
    const double time = now() - begin;
    if (time < best) best = time;
  }
  printf("{\"ms\": %g}\n", 1e3 * best);
  return 0;
}
