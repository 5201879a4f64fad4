// The stages of the program that cli_test runs.
#include <chrono>
#include <fstream>
#include <thread>

#include "framework/core/registry.h"

namespace cli_test {

struct Word {
  std::string text;
};

/// Has no arrays.
struct Note {};

}  // namespace cli_test

template <>
struct flow::PacketTraits<cli_test::Note> {
  static constexpr std::string_view name = "Note";
};
template <>
struct flow::PacketTraits<cli_test::Word> {
  static constexpr std::string_view name = "Word";
  static constexpr bool result = true;
  static std::vector<TensorRef> tensors(const cli_test::Word& w) {
    const auto size = static_cast<std::int64_t>(w.text.size());
    return {{"text", "U8", {size}, std::as_bytes(std::span(w.text))}};
  }
};

namespace cli_test {

using flow::Context;
using flow::Status;

/// Sends its words one by one; for ever when asked to.
class Emit final : public flow::Stage {
 public:
  static constexpr flow::Out<Word> kWord{"word", "one word"};
  struct Options {
    std::vector<std::string> words = {"a", "b", "c"};
    bool forever = false;
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Sends words. Then it ends.").output(kWord);
    s.option("words", &Options::words, "what to send");
    s.option("forever", &Options::forever, "begin again after the last one");
  }
  explicit Emit(const Options& options) : options_(options) {}

  Status process(Context& context) override {
    if (next_ == options_.words.size() && options_.forever) next_ = 0;
    if (next_ == options_.words.size()) {
      context.finish();
      return {};
    }
    context.emit(kWord, Word{options_.words[next_++]});
    return {};
  }

 private:
  const Options options_;
  std::size_t next_ = 0;
};
FLOW_REGISTER_STAGE(Emit);

class Box final : public flow::Service {
 public:
  struct Options {
    flow::Bytes size{2048};
  };
  static void describe(flow::ServiceSpec<Options>& s) {
    s.doc("Holds memory.");
    s.option("size", &Options::size, "how much");
  }
  explicit Box(const Options& options) : options_(options) {}
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening&) override {
    return std::vector<flow::PlanLine>{{"pages", options_.size.count, 512, 0}};
  }

 private:
  const Options options_;
};
FLOW_REGISTER_SERVICE(Box);

/// Prints words.
class Print final : public flow::Stage {
 public:
  static constexpr flow::In<Word> kWord{"word", "what to print"};
  static constexpr flow::Out<Note> kNote{"note", "never sent"};
  static constexpr flow::Uses<Box> kBox{"box", "where words rest"};
  struct Options {
    std::string end = " ";
    std::string fail_at;
    double seconds = 0;
    bool stubborn = false;
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Prints words.").input(kWord).output(kNote).uses(kBox).executor(flow::Executor::io);
    s.option("end", &Options::end, "after each word");
    s.option("fail_at", &Options::fail_at, "the word that makes it fail");
    s.option("seconds", &Options::seconds, "how long a word takes").range(0, 60);
    s.option("stubborn", &Options::stubborn, "do not ask whether the run goes on");
  }
  explicit Print(const Options& options) : options_(options) {}

  Status process(Context& context) override {
    const std::string& text = context.in(kWord).text;
    if (text == options_.fail_at) return flow::errorf("cannot say '{}'", text);
    context.console().out(text + options_.end);
    context.console().note("printed " + text);
    context.report().append("words", boost::json::value(text));
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
    while (std::chrono::steady_clock::now() < end && (options_.stubborn || !context.cancelled())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

 private:
  const Options options_;
};
FLOW_REGISTER_STAGE(Print);

/// Taps as lines of text.
class LineWriter final : public flow::TapWriter {
 public:
  explicit LineWriter(std::string path) : path_(std::move(path)) {}
  Status add(const std::string& prefix, const std::vector<flow::TensorRef>& tensors) override {
    for (const flow::TensorRef& t : tensors) {
      text_ += prefix + t.name + " " +
               std::string(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()) + "\n";
    }
    return {};
  }
  Status close() override {
    std::ofstream(path_) << text_;
    return {};
  }

 private:
  const std::string path_;
  std::string text_;
};

[[maybe_unused]] const bool registered = [] {
  flow::Registry::instance().add(
      flow::TapFormat{".txt", [](const std::string& path) -> flow::Result<std::unique_ptr<flow::TapWriter>> {
                        return std::unique_ptr<flow::TapWriter>(std::make_unique<LineWriter>(path));
                      }});
  flow::ValueInfo info;
  info.name = "Pair";
  info.doc = "Two numbers.";
  info.options.make = [] { return std::make_shared<int>(); };
  info.load = [](const void*) -> flow::Result<boost::json::object> {
    return boost::json::object{{"a", 1}, {"b", 2}};
  };
  flow::Registry::instance().add(std::move(info));
  return true;
}();

}  // namespace cli_test
