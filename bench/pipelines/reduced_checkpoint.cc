#include "bench/pipelines/reduced_checkpoint.h"

#include <fmt/ranges.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>

#include "framework/config/load.h"
#include "framework/core/data_dirs.h"
#include "framework/runtime/runner.h"
#include "stages/engram/layout.h"
#include "stages/model/json.h"

namespace dsv::bench {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using flow::Result;
using flow::Status;

constexpr std::int64_t kEngramRows = 100'000;  // of each bucket

/// Row counts of the Engram tables that the config's other keys imply.
Result<json::array> engram_rows(const json::object& c, std::vector<std::int64_t> layers) {
  const auto number = [&](const char* key) { return c.at(key).to_number<std::int64_t>(); };
  FLOW_ASSIGN(const EngramLayout layout, EngramLayout::derive({std::move(layers),
                                                               number("engram_max_ngram_size"),
                                                               number("engram_n_heads"),
                                                               kEngramRows,
                                                               number("engram_compressed_vocab_size"),
                                                               number("engram_pad_id"),
                                                               {}}));
  json::array rows;
  for (const EngramLayerLayout& layer : layout.layers) rows.push_back(layer.rows);
  return rows;
}

Result<json::object> reduced(const json::object& released, ReducedCheckpoint::Size size) {
  if (size.layers < 4)
    return flow::errorf("{} layers are too few for every role; give 4 or more", size.layers);
  const int half = size.layers / 2, last = half + (size.layers - half) / 2;
  json::array ratios;
  for (int l = 0; l < size.layers; ++l) ratios.push_back(l < half / 2 ? 0 : l < half ? 2 : 1);
  json::object c = released;
  c["n_layers"] = size.layers;
  c["n_routed_experts"] = size.experts;
  c["n_mtp_layers"] = 0;
  c["dspark_target_layer_ids"] = json::array();
  c["vision_n_layers"] = 1;
  c["compress_ratios"] = ratios;
  c["kv_source_layers"] = {half / 2, half};
  c["index_source_layers"] = last > half ? json::array{half / 2, half, last} : json::array{half / 2, half};
  c["candidate_source_layer"] = half;
  c["engram_layer_ids"] = {1, half};
  c["engram_vocab_size"] = kEngramRows;
  FLOW_ASSIGN(c["engram_num_embeddings"], engram_rows(c, {1, half}));
  return c;
}

Status run_synth(const fs::path& config, const fs::path& folder) {
  flow::LoadOutcome outcome = flow::load_graph(
      {.files = {"synth"},
       .sets = {{"config", config.string()}, {"out", folder.string()}, {"payload", "random"}},
       .data_dirs = flow::data_dirs()});
  if (!outcome.plan) return Status::error(fmt::format("{}", fmt::join(outcome.errors, "\n")));
  return flow::Runner(*std::move(outcome.plan), {}).run();
}

}  // namespace

Result<std::unique_ptr<ReducedCheckpoint>> ReducedCheckpoint::write(const fs::path& config,
                                                                    const fs::path& tokenizer, Size size,
                                                                    fs::path folder) {
  FLOW_ASSIGN(const json::value released, load_json(config.string()));
  FLOW_ASSIGN(const json::object geometry, reduced(released.as_object(), size));
  const bool keep = !folder.empty();
  if (!keep) {
    std::string name = fs::temp_directory_path() / "dsv41-step-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return flow::errorf("cannot make '{}'", name);
    folder = name;
  }
  auto checkpoint = std::unique_ptr<ReducedCheckpoint>(new ReducedCheckpoint(folder, keep));
  const fs::path source = folder / "geometry";
  fs::create_directories(source);
  std::ofstream(source / "config.json") << json::serialize(geometry);
  fs::copy_file(tokenizer, source / "tokenizer.json", fs::copy_options::overwrite_existing);
  FLOW_TRY(run_synth(source, folder));
  return checkpoint;
}

ReducedCheckpoint::~ReducedCheckpoint() {
  std::error_code ignored;
  if (!keep_) fs::remove_all(path_, ignored);
}

}  // namespace dsv::bench
