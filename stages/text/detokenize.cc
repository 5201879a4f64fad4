#include <cmath>
#include <numeric>

#include "stages/model/packets.h"
#include "stages/text/vocabulary.h"

namespace dsv {

/// Writes the generated text to standard output, streamed, and each finished sequence to the run's report.
/// A character whose bytes are split over tokens is held back until it is complete.
///
/// Ports: token (from TokenLoop).
///
///     - {name: print, stage: DetokenizeToStdout, in: {token: tokens.generated}}
class DetokenizeToStdout final : public flow::Stage {
 public:
  static constexpr flow::In<GeneratedToken> kToken{"token", "accepted tokens, and the end of a sequence"};
  struct Options {
    std::string mode = "stream";
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Writes generated text to standard output and finished sequences to the report.");
    spec.input(kToken).uses(kVocabulary);
    spec.option("mode", &Options::mode,
                "stream = as it comes (one sequence); whole = each sequence at its end, on a line")
        .choices({"stream", "whole", "none"});
  }
  explicit DetokenizeToStdout(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    vocabulary_ = opening.service(kVocabulary);
    return {};
  }

  flow::Status process(flow::Context& context) override {
    const GeneratedToken& token = context.in(kToken);
    Sequence& sequence = *token.sequence;
    if (!sequence.decoder) sequence.decoder.emplace(vocabulary_->share_tokenizer(), false);
    std::string text = token.id ? sequence.decoder->push(*token.id) : "";
    if (token.finish_reason) text += sequence.decoder->flush();
    sequence.text += text;
    if (options_.mode == "stream" && !text.empty()) context.console().out(text);
    if (token.finish_reason) finish(context, sequence, *token.finish_reason);
    return {};
  }

  std::function<void()> saved(const flow::Context& context) const override {
    const std::shared_ptr<Sequence> sequence = context.in(kToken).sequence;
    return [sequence, decoder = sequence->decoder, text = sequence->text] {
      sequence->decoder = decoder;
      sequence->text = text;
    };
  }

 private:
  void finish(flow::Context& context, const Sequence& sequence, const std::string& reason) const {
    if (options_.mode == "whole") context.console().out(sequence.prompt_text + sequence.text + "\n");
    using Seconds = std::chrono::duration<double>;
    const std::size_t tokens = sequence.generated.size();
    const double prefill = Seconds(*sequence.prompt_read - sequence.started).count();
    const double decode = Seconds(Sequence::Clock::now() - *sequence.prompt_read).count();
    const double each = tokens == 0 ? 0 : decode / static_cast<double>(tokens);
    context.console().note(fmt::format("decode: {} tokens, {:.3f} s a token ({})", tokens, each, reason));
    const double total =
        std::accumulate(sequence.log_probabilities.begin(), sequence.log_probabilities.end(), 0.0);
    context.report().append(
        "sequences",
        {{"sequence", sequence.id},
         {"prompt", sequence.prompt_text},
         {"prompt_ids", boost::json::value_from(sequence.prompt)},
         {"generated_ids", boost::json::value_from(sequence.generated)},
         {"text", sequence.text},
         {"finish_reason", reason},
         {"log_probabilities", boost::json::value_from(sequence.log_probabilities)},
         {"perplexity", tokens == 0 ? boost::json::value() : std::exp(-total / static_cast<double>(tokens))},
         {"prefill_seconds", prefill},
         {"decode_seconds", decode},
         {"seconds_per_token", each}});
  }

  Options options_;
  std::shared_ptr<Vocabulary> vocabulary_;
};
FLOW_REGISTER_STAGE(DetokenizeToStdout);

}  // namespace dsv
