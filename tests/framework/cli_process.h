// Runs the tool as a process of its own.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace cli_test {

inline std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// A running tool; its standard streams are files of the working directory.
class Process {
 public:
  struct Streams {
    std::string in = "/dev/null", out = "stdout.txt", err = "stderr.txt";
    int out_fd = -1;  ///< instead of `out`
    std::string program = DSV41_CLI_PROGRAM;
  };

  Process(std::vector<std::string> arguments, Streams streams) : streams_(std::move(streams)) {
    arguments.insert(arguments.begin(), streams_.program);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    std::remove(streams_.out.c_str());  // of the process before, for printed()
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(::open(streams_.in.c_str(), O_RDONLY), 0);
      ::dup2(streams_.out_fd >= 0 ? streams_.out_fd : create(streams_.out), 1);
      ::dup2(create(streams_.err), 2);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Process() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    (void)wait();
  }

  void signal(int number) const { ::kill(child_, number); }

  /// The exit code; 1000 plus the signal that killed it.
  int wait() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  /// Waits until standard output has this text; false after ten seconds.
  bool printed(const std::string& text) const {
    for (int i = 0; i < 1000; ++i) {
      if (read_text(streams_.out).find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  static int create(const std::string& path) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  }
  Streams streams_;
  pid_t child_ = 0;
};

struct Finished {
  int code = 0;
  std::string out, err;
};

/// Runs the tool to its end.
inline Finished run(const std::vector<std::string>& arguments, const std::string& input = {},
                    const std::string& program = DSV41_CLI_PROGRAM) {
  std::ofstream("stdin.txt", std::ios::binary) << input;
  Process process(arguments, {.in = "stdin.txt", .program = program});
  const int code = process.wait();
  return {code, read_text("stdout.txt"), read_text("stderr.txt")};
}

}  // namespace cli_test
