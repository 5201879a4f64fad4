#include "framework/cli/subprocess.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "framework/cli/files.h"
#include "framework/core/output_file.h"

namespace flow::cli {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
/// A nameless file. Files instead of pipes: neither side can wait for the other.
using Scratch = std::unique_ptr<std::FILE, Close>;

/// Starts the program and waits for its exit code.
Result<int> run(const std::vector<std::string>& command, int in, int out) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return 127;
  if (error != 0) return errorf("cannot run '{}': {}", command[0], std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<Finished> run_program(const std::vector<std::string>& command, std::string_view input) {
  const Scratch in(std::tmpfile()), out(std::tmpfile());
  if (!in || !out) return errorf("no temporary file: {}", std::strerror(errno));
  const int in_fd = ::fileno(in.get()), out_fd = ::fileno(out.get());
  if (const int error = write_all(in_fd, input)) {
    return errorf("no temporary file: {}", std::strerror(error));
  }
  ::lseek(in_fd, 0, SEEK_SET);
  Finished finished;
  FLOW_ASSIGN(finished.code, run(command, in_fd, out_fd));
  ::lseek(out_fd, 0, SEEK_SET);
  FLOW_ASSIGN(finished.output, read_descriptor(out_fd));
  return finished;
}

}  // namespace flow::cli
