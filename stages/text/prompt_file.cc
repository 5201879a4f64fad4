#include "stages/text/prompt_file.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/core/parallel.h"
#include "framework/core/units.h"

namespace dsv {
using flow::Result;
using flow::Status;
namespace {

/// Several times the text of a context of a million tokens.
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr int kGlanceMilliseconds = 50;

class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& path)
      // A pipe without a writer must not keep open() from returning.
      : number_(path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ > STDIN_FILENO) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

/// Waits until there is something to read, or the end.
Status wait(int descriptor, const flow::Context& context) {
  pollfd event{descriptor, POLLIN, 0};
  while (!context.cancelled()) {
    const int ready = poll(&event, 1, kGlanceMilliseconds);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return Status::error(std::strerror(errno));
    flow::heartbeat();
  }
  return Status::error("the run was cancelled");
}

Status read_all(int descriptor, const flow::Context& context, std::string& text) {
  char piece[65536];
  while (true) {
    FLOW_TRY(wait(descriptor, context));
    const ssize_t got = read(descriptor, piece, sizeof piece);
    if (got == 0) return {};
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return Status::error(std::strerror(errno));
    text.append(piece, static_cast<std::size_t>(got));
    if (text.size() > kMostBytes)
      return flow::errorf("is longer than {}; no context holds such a text", flow::bytes_text(kMostBytes));
  }
}

}  // namespace

Result<std::string> read_prompt_file(const std::filesystem::path& path, const flow::Context& context) {
  const std::string name = path == "-" ? "standard input" : fmt::format("prompt file '{}'", path.string());
  const Descriptor file(path);
  if (file.number() < 0) return flow::errorf("{}: {}", name, std::strerror(errno));
  std::string text;
  FLOW_TRY(read_all(file.number(), context, text).in(name));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

}  // namespace dsv
