// Runs a pipeline of the source tree in this process, as the command line tool does.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "framework/config/load.h"
#include "framework/core/data_dirs.h"
#include "framework/runtime/runner.h"
#include "framework/testing/stage_runner.h"
#include "stages/model/checkpoint.h"

namespace dsv::testing {

inline std::string source(const std::string& path) {
  return std::string(DSV41_SOURCE_DIR) + "/" + path;
}

/// What a run left behind.
struct Outcome {
  flow::Status status;
  std::string text, notes;
  boost::json::object report;

  const boost::json::object& sequence(std::size_t i = 0) const {
    return report.at("sequences").at(i).as_object();
  }
  std::vector<std::int32_t> generated(std::size_t i = 0) const {
    return boost::json::value_to<std::vector<std::int32_t>>(sequence(i).at("generated_ids"));
  }
};

using Sets = std::vector<std::pair<std::string, std::string>>;

/// A comma-separated list, as --set takes it.
template <class T>
std::string list(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

/// A pipeline, and its overlays after it.
inline flow::LoadOutcome load_pipeline(const std::vector<std::string>& files, const Sets& sets) {
  std::vector<std::string> paths;
  for (const std::string& file : files) paths.push_back(source(file));
  return flow::load_graph({.files = paths, .sets = sets, .data_dirs = flow::data_dirs()});
}

inline Outcome run_overlaid(const std::vector<std::string>& files, const Sets& sets,
                            std::vector<flow::TapRequest> taps = {}) {
  Outcome outcome;
  flow::LoadOutcome loaded = load_pipeline(files, sets);
  if (!loaded.plan) {
    outcome.status = flow::Status::error(fmt::format("{}", fmt::join(loaded.errors, "\n")));
    return outcome;
  }
  auto console = std::make_shared<flow::CapturingConsole>();
  auto report = std::make_shared<flow::RunReport>();
  flow::Runner runner(std::move(*loaded.plan), {console, report, std::move(taps), nullptr});
  outcome.status = runner.run();
  outcome.text = console->text();
  outcome.notes = console->notes();
  outcome.report = report->snapshot();
  return outcome;
}

inline Outcome run_pipeline(const std::string& file, const Sets& sets,
                            std::vector<flow::TapRequest> taps = {}) {
  return run_overlaid({file}, sets, std::move(taps));
}

/// A folder that is removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dsv41-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Logits of every position of one sequence, from a tap of the head: row p is what follows position p.
inline std::vector<std::vector<float>> tapped_logits(const std::string& file, std::uint64_t sequence = 0) {
  std::map<std::uint64_t, std::vector<std::vector<float>>> by_step;
  auto tap = Checkpoint::open(file);
  EXPECT_TRUE(tap.ok()) << tap.status().message();
  if (!tap.ok()) return {};
  for (const TensorInfo& tensor : (*tap)->tensors()) {
    unsigned long long number = 0, step = 0;
    char name[32] = "";
    if (sscanf(tensor.name.c_str(), "%llu.%llu.%31s", &number, &step, name) != 3) continue;
    if (number != sequence || std::string_view(name) != "logits") continue;
    const std::vector<std::byte> bytes = *(*tap)->read(tensor);
    const auto* values = reinterpret_cast<const float*>(bytes.data());
    for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
      by_step[step].emplace_back(values + row * tensor.shape[1], values + (row + 1) * tensor.shape[1]);
    }
  }
  std::vector<std::vector<float>> rows;
  for (auto& [step, chunk] : by_step) rows.insert(rows.end(), chunk.begin(), chunk.end());
  return rows;
}

}  // namespace dsv::testing
