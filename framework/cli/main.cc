#include "framework/cli/cli.h"

int main(int argc, char** argv) {
  return flow::run_command_line(argc, argv);
}
