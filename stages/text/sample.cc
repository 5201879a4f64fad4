#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/registry.h"
#include "stages/model/packets.h"
#include "stages/model/touched.h"

namespace dsv {
namespace {

std::int32_t best(const float* logits, std::int64_t n) {
  return static_cast<std::int32_t>(std::max_element(logits, logits + n) - logits);  // the first of equal ones
}

double log_sum_exp(const float* logits, std::int64_t n) {
  const double top = logits[best(logits, n)];
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += std::exp(logits[i] - top);
  return top + std::log(total);
}

}  // namespace

/// Chooses the next token from the last row of logits.
///
/// Ports: logits -> token. At temperature 0 the highest logit, the lowest id of equal ones; otherwise
/// Gumbel-max: the highest of softmax(logits / T) / noise with exponential noise from the sequence's
/// generator. A pass whose next token is given reports that token's probability. Source: reference `sample`;
/// MODEL "Sampling".
///
///     - {name: sample, stage: Sample, in: {logits: backbone.logits}, options: {temperature: 0.7}}
class Sample final : public flow::Stage {
 public:
  static constexpr flow::In<Logits> kLogits{"logits", "fp32 logits of the pass"};
  static constexpr flow::Out<SampledToken> kToken{"token", "the next token, or none within a prompt"};
  struct Options {
    double temperature = 0;
  };

  static void describe(flow::StageSpec<Options>& spec) {
    spec.doc("Chooses the next token.");
    spec.input(kLogits).output(kToken);
    spec.option("temperature", &Options::temperature, "0 = always the most probable token").range(0, 100);
  }
  explicit Sample(Options options) : options_(options) {}

  flow::Status process(flow::Context& context) override {
    const Logits& logits = context.in(kLogits);
    SampledToken token{logits.step, std::nullopt, 0};
    if (logits.step->last_of_prompt) {
      const std::int64_t n = logits.rows.cols();
      const float* row = logits.rows.row(logits.rows.rows() - 1);
      if (!std::all_of(row, row + n, [](float x) { return std::isfinite(x); })) {
        return flow::errorf("the logits at position {} are not finite; a weight is damaged",
                            logits.step->position + logits.step->tokens() - 1);
      }
      if (logits.step->forced_next)
        token.id = logits.step->forced_next;
      else
        token.id = options_.temperature > 0 ? draw(row, n, logits.step->sequence->random) : best(row, n);
      token.log_probability = row[*token.id] - log_sum_exp(row, n);
    }
    count_pass(context, 1, logits.rows);
    context.emit(kToken, std::move(token));
    return {};
  }

  std::function<void()> saved(const flow::Context& context) const override {
    return [sequence = context.in(kLogits).step->sequence,
            random = context.in(kLogits).step->sequence->random] { sequence->random = random; };
  }

 private:
  std::int32_t draw(const float* logits, std::int64_t n, std::mt19937_64& random) const {
    // The order of p / noise, by logarithms: probabilities at a low temperature are too small for a double.
    const double top = logits[best(logits, n)];
    std::int32_t winner = 0;
    double highest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i) {
      // 53 random bits, never zero: the same on every standard library.
      const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
      const double score = (logits[i] - top) / options_.temperature - std::log(-std::log(uniform));
      if (score > highest) {
        highest = score;
        winner = static_cast<std::int32_t>(i);
      }
    }
    return winner;
  }

  Options options_;
};
FLOW_REGISTER_STAGE(Sample);

}  // namespace dsv
