#include <algorithm>

#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/model/prefill.h"
#include "stages/text/vocabulary.h"

namespace dsv {

/// The loop of generation: reads a prompt in one pass or in chunks, then one token a pass, until the end of
/// sequence, a limit, or the end of a given continuation.
///
/// Ports: prompt (starts a sequence), next (feedback: outcome of a pass) -> step (the next pass), generated.
/// Passes of one sequence follow each other; passes of several sequences may be in flight together.
/// Source: reference `generate`.
///
///     - {name: tokens, stage: TokenLoop, in: {prompt: tokenize.ids, next: {from: sample.token, feedback:
///     true}}}
class TokenLoop final : public flow::Stage {
 public:
  static constexpr flow::In<Prompt> kPrompt{"prompt", "starts a sequence"};
  static constexpr flow::In<SampledToken> kNext{"next", "outcome of the previous pass (feedback)"};
  static constexpr flow::Out<TokenStep> kStep{"step", "token ids of the next pass"};
  static constexpr flow::Out<GeneratedToken> kGenerated{"generated",
                                                        "accepted tokens, and the end of a sequence"};
  struct Options {
    std::int64_t max_new_tokens = 8;
    std::int64_t prefill_chunk = 0;
    std::string prefill = "exact";
    std::string logits = "last";
    std::vector<std::int64_t> continuation_ids;
    bool stop_at_eos = true;
    std::int64_t seed = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Feeds the prompt, then each new token, until a sequence ends.");
    spec.input(kPrompt).input(kNext).output(kStep).output(kGenerated).uses(kModel).uses(kVocabulary);
    spec.policy(flow::InputPolicy::any);
    spec.option("max_new_tokens", &Options::max_new_tokens, "most tokens to generate").range(0);
    spec.option("prefill_chunk", &Options::prefill_chunk,
                "tokens of the prompt in one pass; 0 = the whole prompt")
        .range(0);
    spec.option(
            "prefill", &Options::prefill,
            "work on the prompt: exact = what can reach the output; full = every position in every layer, "
            "with the same bits; bounded = the layers after the last KV source see window_size positions "
            "only, "
            "an approximation")
        .choices({"exact", "full", "bounded"});
    spec.option("logits", &Options::logits, "positions that get logits; all asks for a full prefill")
        .choices({"last", "all"});
    spec.option("continuation_ids", &Options::continuation_ids, "feed these ids instead of the sampled ones");
    spec.option("stop_at_eos", &Options::stop_at_eos, "end at the end-of-sequence token");
    spec.option("seed", &Options::seed, "seed of the sampling noise; sequence n uses seed + n").range(0);
  }
  explicit TokenLoop(Options options) : options_(std::move(options)) {}

  flow::Status open(const flow::Opening& opening) override {
    model_ = opening.service(kModel);
    eos_ = opening.service(kVocabulary)->eos();
    return check_ids(options_.continuation_ids, "continuation_ids");
  }

  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override {
    const ModelConfig& c = opening.service(kModel)->config();
    const std::int64_t context = c.context_length();
    const std::int64_t prompt =
        std::min(opening.service(kVocabulary)->planned_prompt().value_or(kPlannedTokens), context);
    const std::int64_t tokens = prompt + std::min(context - prompt, limit());
    const std::int64_t pass = options_.prefill_chunk > 0 ? std::min(prompt, options_.prefill_chunk) : prompt;
    return std::vector<flow::PlanLine>{
        {fmt::format("KV cache of {} tokens", tokens), kv_cache_bytes(c, tokens), 0, 0},
        {fmt::format("pass over {} tokens", pass), pass_bytes(c, pass), 0, 0}};
  }

  flow::Status process(flow::Context& context) override {
    return context.has(kPrompt) ? begin(context) : advance(context, context.in(kNext));
  }

  std::function<void()> saved(const flow::Context& context) const override {
    if (context.has(kPrompt)) return {};
    const std::shared_ptr<Sequence> sequence = context.in(kNext).step->sequence;
    return [sequence, position = sequence->position, generated = sequence->generated,
            log_probabilities = sequence->log_probabilities, prompt_read = sequence->prompt_read] {
      sequence->position = position;
      sequence->generated = generated;
      sequence->log_probabilities = log_probabilities;
      sequence->prompt_read = prompt_read;
    };
  }

 private:
  static constexpr std::int64_t kPlannedTokens = 1024;  // of a prompt that is not known yet
  static constexpr std::size_t kTextBytes = 16;         // of most tokens

  template <class Ids>
  flow::Status check_ids(const Ids& ids, std::string_view what) const {
    for (const auto id : ids) {
      if (id >= 0 && id < model_->config().vocab_size) continue;
      return flow::errorf("{}: id {} is outside the vocabulary of {}", what, id, model_->config().vocab_size);
    }
    return {};
  }

  flow::Status begin(flow::Context& context) const {
    const Prompt& prompt = context.in(kPrompt);
    const std::int64_t limit = model_->config().context_length(),
                       tokens = static_cast<std::int64_t>(prompt.ids.size());
    FLOW_TRY(check_ids(prompt.ids, "prompt"));
    if (tokens + static_cast<std::int64_t>(options_.continuation_ids.size()) > limit) {
      return flow::errorf("the prompt has {} tokens{}, but the context holds {}", tokens,
                          options_.continuation_ids.empty()
                              ? ""
                              : fmt::format(" and {} to continue with", options_.continuation_ids.size()),
                          limit);
    }
    const std::uint64_t number = context.stamp().sequence;
    auto sequence = std::make_shared<Sequence>(model_->config(), number,
                                               static_cast<std::uint64_t>(options_.seed) + number);
    sequence->prompt_text = prompt.text;
    sequence->prompt = prompt.ids;
    if (const Prefill prefill = prefill_of(options_.logits == "all" ? "full" : options_.prefill);
        prefill != Prefill::full) {
      sequence->prefill_begins = std::make_shared<const std::vector<std::int64_t>>(
          prefill_begins(model_->config(), prefill, tokens));
    }
    make_room(*sequence);
    feed_prompt(context, std::move(sequence));
    return {};
  }

  std::int64_t limit() const {
    return options_.continuation_ids.empty() ? options_.max_new_tokens
                                             : static_cast<std::int64_t>(options_.continuation_ids.size());
  }

  /// For what a sequence may grow to: no pass over one token allocates.
  void make_room(Sequence& sequence) const {
    const auto prompt = static_cast<std::int64_t>(sequence.prompt.size());
    const std::int64_t fresh_tokens = std::min(model_->config().context_length() - prompt, limit());
    const auto fresh = static_cast<std::size_t>(fresh_tokens);
    sequence.kv.reserve(model_->config(), prompt + fresh_tokens);
    sequence.generated.reserve(fresh);
    sequence.log_probabilities.reserve(fresh);
    sequence.text.reserve(kTextBytes * fresh);
  }

  flow::Status advance(flow::Context& context, const SampledToken& outcome) const {
    const std::shared_ptr<Sequence>& sequence = outcome.step->sequence;
    sequence->position += outcome.step->tokens();
    if (!outcome.step->last_of_prompt) {
      context.console().note(
          fmt::format("prefill: {} of {} tokens", sequence->position, sequence->prompt.size()));
      feed_prompt(context, sequence);
      return {};
    }
    if (!sequence->prompt_read) {
      sequence->prompt_read = Sequence::Clock::now();
      const double seconds =
          std::chrono::duration<double>(*sequence->prompt_read - sequence->started).count();
      context.console().note(fmt::format("prefill: {} tokens in {:.2f} s", sequence->prompt.size(), seconds));
    }
    accept(context, sequence, outcome);
    return {};
  }

  void feed_prompt(flow::Context& context, std::shared_ptr<Sequence> sequence) const {
    const std::vector<std::int32_t>& prompt = sequence->prompt;
    const std::int64_t left = static_cast<std::int64_t>(prompt.size()) - sequence->position;
    const std::int64_t count = options_.prefill_chunk > 0 ? std::min(left, options_.prefill_chunk) : left;
    const auto first = prompt.begin() + sequence->position;
    auto begins = sequence->prefill_begins;
    feed(context, std::move(sequence), {first, first + count}, count == left, std::move(begins));
  }

  void feed(flow::Context& context, std::shared_ptr<Sequence> sequence, flow::StepVector<std::int32_t> ids,
            bool last, std::shared_ptr<const std::vector<std::int64_t>> begins = nullptr) const {
    auto step = flow::make_recycled<Step>();
    step->ids = std::move(ids);
    step->position = sequence->position;
    step->last_of_prompt = last;
    step->begins = std::move(begins);
    if (const std::size_t given = sequence->generated.size();
        last && given < options_.continuation_ids.size()) {
      step->forced_next = static_cast<std::int32_t>(options_.continuation_ids[given]);
    }
    step->sequence = std::move(sequence);
    flow::Stamp stamp = context.stamp();
    ++stamp.step;
    context.emit(kStep, flow::make_recycled<const TokenStep>(TokenStep{std::move(step)}), stamp);
  }

  /// Takes the outcome of a pass: ends the sequence, or hands the token on and feeds it.
  void accept(flow::Context& context, const std::shared_ptr<Sequence>& sequence,
              const SampledToken& outcome) const {
    GeneratedToken out{sequence, std::nullopt, std::nullopt};
    const bool given = !options_.continuation_ids.empty();
    const auto done = static_cast<std::int64_t>(sequence->generated.size());
    if (done >= limit()) {
      out.finish_reason = given ? "continuation" : "length";
    } else if (!given && options_.stop_at_eos && eos_ && outcome.id == *eos_) {
      out.finish_reason = "stop";
    } else {
      out.id = outcome.id;
      sequence->generated.push_back(*outcome.id);
      sequence->log_probabilities.push_back(outcome.log_probability);
      const bool full = sequence->position >= model_->config().context_length();
      if (full || (!given && done + 1 == limit()))
        out.finish_reason = "length";
      else
        feed(context, sequence, {*outcome.id}, true);
    }
    context.emit(kGenerated, std::move(out));
  }

  Options options_;
  std::shared_ptr<Model> model_;
  std::optional<std::int32_t> eos_;
};
FLOW_REGISTER_STAGE(TokenLoop);

}  // namespace dsv
