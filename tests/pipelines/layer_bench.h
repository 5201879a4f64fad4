// The stages of one layer, each run alone on tensors of the caller: what the golden tests compare.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "framework/testing/stage_runner.h"
#include "stages/engram/tables.h"
#include "stages/model/model.h"
#include "stages/model/packets.h"
#include "stages/moe/expert_packets.h"
#include "stages/moe/expert_store.h"
#include "stages/text/vocabulary.h"

namespace dsv::testing {

/// An open checkpoint with its services, outside any graph.
class OpenModel {
 public:
  explicit OpenModel(const std::filesystem::path& path) {
    model = open<Model>(Model::Options{path, ""}, {}, {});
    vocabulary = open<Vocabulary>(Vocabulary::Options{path}, {}, {});
    io = open<Storage>(Storage::Options{}, {}, {});
    const flow::UseInfo use_model{"model", "", typeid(Model)}, use_io{"io", "", typeid(Storage)};
    experts = open<ExpertStore>(ExpertStore::Options{}, {use_model, use_io}, {model, io});
    engram = open<EngramTables>(EngramTables::Options{},
                                {use_model, {"vocabulary", "", typeid(Vocabulary)}, use_io},
                                {model, vocabulary, io});
  }

  /// A runner of one stage of `layer`, bound to these services; kept for the next call.
  flow::StageRunner& stage(const std::string& type, boost::json::object options = {}) {
    auto& runner = runners_[type + boost::json::serialize(options)];
    if (!runner) {
      runner = std::make_unique<flow::StageRunner>(type, std::move(options));
      runner->service("model", model)
          .service("vocabulary", vocabulary)
          .service("io", io)
          .service("experts", experts)
          .service("engram", engram);
    }
    runner->clear();
    return *runner;
  }

  std::shared_ptr<Model> model;
  std::shared_ptr<Vocabulary> vocabulary;
  std::shared_ptr<Storage> io;
  std::shared_ptr<ExpertStore> experts;
  std::shared_ptr<EngramTables> engram;

 private:
  template <class T>
  std::shared_ptr<T> open(typename T::Options options, std::vector<flow::UseInfo> uses,
                          std::vector<std::shared_ptr<flow::Service>> services) {
    auto service = std::make_shared<T>(std::move(options));
    const flow::Status status =
        service->open(flow::Opening("test", uses, std::move(services), console_, cancelled_));
    EXPECT_TRUE(status.ok()) << status.message();
    return service;
  }
  flow::CapturingConsole console_;
  std::atomic<bool> cancelled_{false};
  std::map<std::string, std::unique_ptr<flow::StageRunner>> runners_;
};

/// Runs a stage and gives its output, or null after a test failure.
template <class T>
std::shared_ptr<const T> run(flow::StageRunner& runner, std::string_view output) {
  const flow::Status status = runner.run();
  EXPECT_TRUE(status.ok()) << status.message();
  return status.ok() ? runner.get(flow::Out<T>{output, ""}) : nullptr;
}

template <class T>
flow::In<T> input(std::string_view name) {
  return {name, ""};
}

}  // namespace dsv::testing
