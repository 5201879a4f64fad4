#include "stages/model/packets.h"
#include "stages/text/prompt_file.h"
#include "stages/text/vocabulary.h"

namespace dsv {

/// Turns prompts into token ids. A source: one packet for each prompt.
///
/// Ports: -> ids (Prompt: text and ids, BOS in front unless add_bos is false).
/// A prompt is a text, a text file ("-" is standard input), or a list of raw ids, which gets no BOS.
///
///     - {name: tokenize, stage: Tokenize, options: {text: "The capital of France is"}}
class Tokenize final : public flow::Stage {
 public:
  static constexpr flow::Out<Prompt> kIds{"ids", "a prompt and its token ids"};
  struct Options {
    std::string text;
    std::vector<std::string> texts;
    std::filesystem::path file;
    std::vector<std::int64_t> ids;
    bool add_bos = true;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Reads the prompt and turns it into token ids.");
    spec.output(kIds).uses(kVocabulary).executor(flow::Executor::io);
    spec.option("text", &Options::text, "the prompt; used when none of the others is given");
    spec.option("texts", &Options::texts, "several prompts, each a sequence of its own");
    spec.option("file", &Options::file,
                "file that holds the prompt, without its last line break; '-' is standard input");
    spec.option("ids", &Options::ids, "raw token ids instead of text");
    spec.option("add_bos", &Options::add_bos, "put the beginning-of-sequence token in front of a text");
  }
  explicit Tokenize(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    vocabulary_ = opening.service(kVocabulary);
    const int given = !options_.texts.empty() + !options_.file.empty() + !options_.ids.empty();
    if (given > 1) return flow::errorf("give only one of texts, file and ids");
    if (options_.texts.empty()) options_.texts = {options_.text};
    return {};
  }

  /// Tells how long the prompts are, but for one that comes from outside.
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override {
    FLOW_TRY(open(opening));
    if (!options_.ids.empty()) vocabulary_->plan_prompt(static_cast<std::int64_t>(options_.ids.size()));
    for (const std::string& text : options_.texts) {
      if (text.empty() || !options_.ids.empty() || !options_.file.empty()) continue;
      FLOW_ASSIGN(const std::vector<std::int32_t> ids, vocabulary_->tokenizer().encode(text).in("prompt"));
      vocabulary_->plan_prompt(static_cast<std::int64_t>(ids.size()) + options_.add_bos);
    }
    return std::vector<flow::PlanLine>{};
  }

  flow::Status process(flow::Context& context) override {
    const std::size_t index = context.stamp().sequence;
    if (index + 1 >= options_.texts.size()) context.finish();
    if (!options_.ids.empty()) return emit_ids(context);
    std::string text = options_.texts[index];
    if (!options_.file.empty()) {
      FLOW_ASSIGN(text, read_prompt_file(options_.file, context));
    }
    if (text.empty()) return flow::errorf("the prompt is empty; give some text");
    Prompt prompt{text, {}};
    if (options_.add_bos) {
      if (!vocabulary_->bos())
        return flow::errorf("the checkpoint names no beginning-of-sequence token; set add_bos to false");
      prompt.ids.push_back(*vocabulary_->bos());
    }
    auto ids = vocabulary_->tokenizer().encode(text);
    if (!ids.ok()) return ids.status().in("prompt");
    prompt.ids.insert(prompt.ids.end(), ids->begin(), ids->end());
    context.emit(kIds, std::move(prompt));
    return {};
  }

 private:
  flow::Status emit_ids(flow::Context& context) const {
    Prompt prompt;
    for (const std::int64_t id : options_.ids) {
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max())
        return flow::errorf("{} is not a token id", id);
      prompt.ids.push_back(static_cast<std::int32_t>(id));
    }
    context.emit(kIds, std::move(prompt));
    return {};
  }

  Options options_;
  std::shared_ptr<Vocabulary> vocabulary_;
};
FLOW_REGISTER_STAGE(Tokenize);

}  // namespace dsv
