#include "stages/audit/engram_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <random>

#include "stages/audit/inventory.h"
#include "stages/engram/hash.h"
#include "stages/engram/tables.h"

namespace dsv {

namespace json = boost::json;

namespace {

constexpr int kSampleTokens = 256;
constexpr int kMostSampledVocabulary = 1 << 24;  // bounds the stand-in for the tokenizer's classes

class EngramVerifier {
 public:
  EngramVerifier(const ModelConfig& config, const Tokenizer* tokenizer)
      : config_(config), tokenizer_(tokenizer) {}

  EngramReport run() {
    find_missing_keys();
    if (!report_.problems.empty() || !config_.has_engram()) return std::move(report_);
    auto layout = EngramLayout::derive(engram_params(config_));
    if (!layout.ok()) {
      problem("{}", layout.status().message());
      return std::move(report_);
    }
    layout_ = std::make_shared<const EngramLayout>(*std::move(layout));
    describe_tables();
    rebuild_classes();
    hash_sample();
    return std::move(report_);
  }

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    report_.problems.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void find_missing_keys() {
    for (const std::string& key : config_.missing())
      if (key.find("engram") != key.npos || key.ends_with("vocab_size")) problem("key '{}' is missing", key);
  }

  void describe_tables() {
    const EngramParams& params = layout_->params;
    report_.columns = layout_->columns();
    report_.pad_id = params.pad_id;
    report_.declared_classes = params.compressed_vocab;
    if (config_.engram_head_dim < 1 || config_.engram_head_dim % kRowBlock != 0)
      problem("engram_head_dim is {}; expected a multiple of {}", config_.engram_head_dim, kRowBlock);
    if (params.declared_rows.size() != layout_->layers.size())
      problem("{} table sizes are declared for {} Engram layers", params.declared_rows.size(),
              layout_->layers.size());
    for (std::size_t i = 0; i < layout_->layers.size(); ++i) {
      EngramTableReport table{layout_->layers[i], {}, 0, 0, 0, 0, 0};
      if (i < params.declared_rows.size()) table.declared_rows = params.declared_rows[i];
      const auto bytes = [&](std::int64_t columns) {
        return tensor_bytes(DType::U8, std::array{table.layout.rows, columns}).value_or(0);
      };
      table.code_bytes = bytes(config_.engram_head_dim);
      table.scale_bytes = bytes(config_.engram_head_dim / kRowBlock);
      if (table.declared_rows && *table.declared_rows != table.layout.rows)
        problem("layer {} declares {} rows; its buckets add up to {}", table.layout.layer_id,
                *table.declared_rows, table.layout.rows);
      report_.tables.push_back(std::move(table));
    }
  }

  void rebuild_classes() {
    if (tokenizer_ == nullptr) return;
    auto map = build_token_map(*tokenizer_);
    if (!map.ok()) return problem("{}", map.status().message());
    report_.tokens = tokenizer_->vocab_size();
    report_.classes = map->classes;
    const auto pad = static_cast<std::size_t>(report_.pad_id);
    if (pad < map->class_of.size())
      report_.pad_class = map->class_of[pad];
    else
      problem("pad id {} is outside the tokenizer's {} ids", report_.pad_id, *report_.tokens);
    if (map->classes != report_.declared_classes)
      problem("the tokenizer makes {} classes; engram_compressed_vocab_size is {}", map->classes,
              report_.declared_classes);
    else if (report_.pad_class)
      map_ = std::make_shared<const TokenMap>(*std::move(map));
  }

  /// Every class, in order, spread over the vocabulary.
  std::shared_ptr<const TokenMap> spread_classes() const {
    TokenMap map;
    map.classes = config_.engram_compressed_vocab_size;
    for (std::int64_t id = 0; id < config_.vocab_size; ++id)
      map.class_of.push_back(static_cast<std::int32_t>(id * map.classes / config_.vocab_size));
    return std::make_shared<const TokenMap>(std::move(map));
  }

  void hash_sample() {
    if (config_.vocab_size < 1 || config_.vocab_size > kMostSampledVocabulary)
      return problem("vocab_size is {}; expected 1 to {}", config_.vocab_size, kMostSampledVocabulary);
    const auto map = map_ ? map_ : spread_classes();
    auto hasher = EngramHasher::make(layout_, map);
    if (!hasher.ok()) return problem("{}", hasher.status().message());
    std::mt19937 draw(1);
    std::vector<std::int32_t> ids(kSampleTokens);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(draw() % map->class_of.size());
    EngramLookback start;
    const auto rows = hasher->hash(ids, {}, start);
    if (!rows.ok()) return problem("{}", rows.status().message());
    for (std::size_t i = 0; i < rows->size(); ++i) judge_sample(report_.tables[i], (*rows)[i]);
  }

  void judge_sample(EngramTableReport& table, const EngramRowIds& ids) {
    const auto [lowest, highest] = std::ranges::minmax(ids);
    table.sampled_ids = std::ssize(ids);
    table.lowest_id = lowest;
    table.highest_id = highest;
    const std::int64_t rows = std::min(table.layout.rows, table.declared_rows.value_or(table.layout.rows));
    if (lowest < 0 || highest >= rows)
      problem("layer {}: row ids from {} to {} leave its {} rows", table.layout.layer_id, lowest, highest,
              rows);
  }

  const ModelConfig& config_;
  const Tokenizer* tokenizer_;
  std::shared_ptr<const EngramLayout> layout_;
  std::shared_ptr<const TokenMap> map_;  ///< null: no tokenizer that fits the config
  EngramReport report_;
};

std::string rows_line(const EngramTableReport& table) {
  if (!table.declared_rows) return fmt::format("rows: derived {}, none declared", table.layout.rows);
  return fmt::format("rows: derived {}, declared {}, difference {}", table.layout.rows, *table.declared_rows,
                     table.layout.rows - *table.declared_rows);
}

std::string table_text(const EngramTableReport& table) {
  const EngramLayerLayout& layout = table.layout;
  const auto gib = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  std::string text = fmt::format("layer {}\n", layout.layer_id);
  text += fmt::format("  {} buckets, primes {} to {}\n", layout.primes.size(), layout.primes.front(),
                      layout.primes.back());
  text += fmt::format("  {}\n", rows_line(table));
  text += fmt::format("  {:.2f} GiB of codes, {:.2f} GiB of scales\n", gib(table.code_bytes),
                      gib(table.scale_bytes));
  text += fmt::format("  multipliers {}\n", layout.multipliers);
  if (table.sampled_ids > 0)
    text += fmt::format("  {} sample ids from {} to {} of {} rows\n", table.sampled_ids, table.lowest_id,
                        table.highest_id, layout.rows);
  return text;
}

std::string tokenizer_text(const EngramReport& report) {
  if (!report.classes) return "[SKIP] token classes: no tokenizer beside the config, and none given\n";
  std::string text = fmt::format("tokenizer: {} tokens in {} classes, {} declared\n", *report.tokens,
                                 *report.classes, report.declared_classes);
  if (report.pad_class) text += fmt::format("  pad id {} has class {}\n", report.pad_id, *report.pad_class);
  return text;
}

json::object table_json(const EngramTableReport& table) {
  const EngramLayerLayout& layout = table.layout;
  return {{"layer", layout.layer_id},
          {"buckets", layout.primes.size()},
          {"first_prime", layout.primes.front()},
          {"last_prime", layout.primes.back()},
          {"derived_rows", layout.rows},
          {"declared_rows", json::value_from(table.declared_rows)},
          {"code_bytes", table.code_bytes},
          {"scale_bytes", table.scale_bytes},
          {"multipliers", json::value_from(layout.multipliers)},
          {"sampled_ids", table.sampled_ids},
          {"lowest_id", table.lowest_id},
          {"highest_id", table.highest_id}};
}

}  // namespace

EngramReport verify_engram(const ModelConfig& config, const Tokenizer* tokenizer) {
  return EngramVerifier(config, tokenizer).run();
}

std::string to_text(const EngramReport& report) {
  std::string text;
  for (const EngramTableReport& table : report.tables) text += table_text(table);
  if (report.tables.empty() && report.problems.empty()) text = "the model has no Engram layers\n";
  if (!report.tables.empty())
    text += fmt::format("{} row ids a token and table, pad id {}\n", report.columns, report.pad_id) +
            tokenizer_text(report);
  for (const std::string& problem : report.problems) text += fmt::format("[fail] {}\n", problem);
  if (report.problems.empty()) text += "[ok] the Engram figures agree\n";
  return text;
}

json::object to_json(const EngramReport& report) {
  json::array tables;
  for (const EngramTableReport& table : report.tables) tables.push_back(table_json(table));
  return {{"columns", report.columns},
          {"pad_id", report.pad_id},
          {"declared_classes", report.declared_classes},
          {"tables", std::move(tables)},
          {"tokens", json::value_from(report.tokens)},
          {"classes", json::value_from(report.classes)},
          {"pad_class", json::value_from(report.pad_class)},
          {"problems", json::value_from(report.problems)}};
}

}  // namespace dsv
