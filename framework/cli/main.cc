#include <malloc.h>

#include "framework/cli/cli.h"

int main(int argc, char** argv) {
  // Large blocks go back to the system when they are freed, and small ones serve every thread: peak memory is
  // what was planned, whatever the order of events.
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_ARENA_MAX, 1);
  return flow::run_command_line(argc, argv);
}
