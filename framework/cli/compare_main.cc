#include "framework/cli/compare.h"

int main(int argc, char** argv) {
  return flow::run_compare_command_line(argc, argv);
}
