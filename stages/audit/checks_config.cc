// The audit's checks of the config alone.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "stages/audit/checks.h"

namespace dsv {

namespace {

bool contains(const std::vector<int>& list, int value) {
  return std::ranges::find(list, value) != list.end();
}

int ratio(const ModelConfig& c, int layer) {
  return layer >= 0 && layer < static_cast<int>(c.compress_ratios.size())
             ? c.compress_ratios[static_cast<std::size_t>(layer)]
             : 0;
}

int backbone_ratios(const ModelConfig& c) {
  return std::min(c.n_layers, static_cast<int>(c.compress_ratios.size()));
}

void keys(const AuditContext& a, Finding& f) {
  for (const std::string& key : a.config.missing()) f.fail("{} is not in {}", key, a.config.path.string());
}

void ratio_count(const AuditContext& a, Finding& f) {
  const auto expected = std::int64_t(a.config.n_layers) + a.config.n_mtp_layers;
  f.expect(std::ssize(a.config.compress_ratios) == expected, "{} ratios for {} layers + {} draft layers",
           a.config.compress_ratios.size(), a.config.n_layers, a.config.n_mtp_layers);
}

void draft_ratios(const AuditContext& a, Finding& f) {
  const auto& ratios = a.config.compress_ratios;
  for (std::size_t l = static_cast<std::size_t>(a.config.n_layers); l < ratios.size(); ++l)
    f.expect(ratios[l] == 0, "compress_ratios[{}] is {}", l, ratios[l]);
}

void kv_are_index_sources(const AuditContext& a, Finding& f) {
  for (const int l : a.config.kv_source_layers)
    f.expect(contains(a.config.index_source_layers, l), "KV source {} is not in index_source_layers {}", l,
             a.config.index_source_layers);
}

void sources_compress(const AuditContext& a, Finding& f) {
  for (const auto* sources : {&a.config.kv_source_layers, &a.config.index_source_layers})
    for (const int l : *sources)
      f.expect(l < a.config.n_layers && ratio(a.config, l) > 0, "source layer {} has compress ratio {}", l,
               ratio(a.config, l));
}

void index_sources_have_kv(const AuditContext& a, Finding& f) {
  for (const int l : a.config.index_source_layers)
    f.expect(std::ranges::any_of(a.config.kv_source_layers, [l](int kv) { return kv <= l; }),
             "index source {} has no KV source at or below it", l);
}

void candidate_source(const AuditContext& a, Finding& f) {
  const auto& kv = a.config.kv_source_layers;
  f.expect(!kv.empty() && a.config.candidate_source_layer == *std::ranges::max_element(kv),
           "candidate_source_layer is {}, kv_source_layers are {}", a.config.candidate_source_layer, kv);
}

void draft_targets(const AuditContext& a, Finding& f) {
  std::vector<int> expected;
  for (int l = std::max(0, a.config.n_layers - a.config.n_mtp_layers);
       a.config.has_dspark() && l < a.config.n_layers; ++l)
    expected.push_back(l);
  f.expect(a.config.dspark_target_layer_ids == expected, "dspark_target_layer_ids are {}, expected {}",
           a.config.dspark_target_layer_ids, expected);
}

void table_sizes(const AuditContext& a, Finding& f) {
  f.expect(a.config.engram_num_embeddings.size() == a.config.engram_layer_ids.size(),
           "{} sizes for {} layers", a.config.engram_num_embeddings.size(), a.config.engram_layer_ids.size());
}

void engram_inside(const AuditContext& a, Finding& f) {
  for (const int l : a.config.engram_layer_ids)
    f.expect(l >= 0 && l < a.config.n_layers, "Engram layer {} of {} layers", l, a.config.n_layers);
}

void compressed_vocabulary(const AuditContext& a, Finding& f) {
  const int size = a.config.engram_compressed_vocab_size;
  f.expect(!a.config.has_engram() || (size > 0 && size <= a.config.vocab_size), "{} classes for {} tokens",
           size, a.config.vocab_size);
}

void readers_have_sources(const AuditContext& a, Finding& f) {
  for (int l = 0; l < backbone_ratios(a.config); ++l) {
    if (ratio(a.config, l) == 0) continue;
    for (const auto& [kind, source] :
         {std::pair{"KV", a.config.kv_source(l)}, {"index", a.config.index_source(l)}})
      f.expect(source >= 0 && ratio(a.config, source) == ratio(a.config, l),
               "layer {} (ratio {}) has no {} source of its ratio at or before it", l, ratio(a.config, l),
               kind);
  }
}

constexpr std::array kChecks = {
    CheckSpec{"Config", "every key is there", keys, false},
    CheckSpec{"Config", "compress_ratios cover backbone and draft layers", ratio_count},
    CheckSpec{"Config", "draft layers compress nothing", draft_ratios},
    CheckSpec{"Config", "every KV source is an index source", kv_are_index_sources},
    CheckSpec{"Config", "every source layer reads compressed positions", sources_compress},
    CheckSpec{"Config", "every index source has a KV source at or below it", index_sources_have_kv},
    CheckSpec{"Config", "the candidate source is the last KV source", candidate_source},
    CheckSpec{"Config", "the DSpark targets are the last layers, one per draft layer", draft_targets},
    CheckSpec{"Config", "one table size per Engram layer", table_sizes},
    CheckSpec{"Config", "Engram layers lie inside the backbone", engram_inside},
    CheckSpec{"Config", "the compressed vocabulary is set and no larger than the vocabulary",
              compressed_vocabulary},
    CheckSpec{"Config", "every compressed layer has KV and index sources of its ratio", readers_have_sources},
};

}  // namespace

std::span<const CheckSpec> config_checks() {
  return kChecks;
}

}  // namespace dsv
