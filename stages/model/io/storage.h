// Storage: how the bytes of a checkpoint that do not stay in memory are read, as a service.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/core/registry.h"
#include "stages/model/io/backend.h"
#include "stages/model/io/rehearsal.h"

namespace dsv {

/// One back end, chosen when it is opened, and the queue in front of it. All back ends give the same bytes.
///
///     services: {io: {type: Storage, backend: auto}}
///
/// Errors of reads name the file and the offset. The run's report says which back end ran, what was asked of
/// it, and what it had to do without.
class Storage final : public flow::Service {
 public:
  struct Options {
    std::string backend = "auto";
    int depth = 0;
    double delay = 0;
    bool shuffle = false;
    std::string fault = {};
  };
  static void describe(flow::ServiceSpec<Options>& spec);
  explicit Storage(Options options) : options_(std::move(options)) {}
  ~Storage() override;

  flow::Status open(const flow::Opening& opening) override;
  flow::Result<std::vector<flow::PlanLine>> plan(const flow::Opening& opening) override;
  void close(flow::RunReport& report) override;

 private:
  friend class Reader;
  flow::Result<RehearsalPlan> rehearsal_plan() const;
  flow::Status start(const flow::Opening& opening);
  int depth(bool uring) const;
  void fall_back(std::string words);

  const Options options_;
  flow::Console* console_ = nullptr;
  const std::atomic<bool>* cancelled_ = nullptr;
  std::string chosen_;
  std::mutex mutex_;
  std::vector<std::string> fallbacks_;
  std::unique_ptr<ReadQueue> queue_;
  std::unique_ptr<Rehearsal> rehearsal_;
  std::unique_ptr<ReadBackend> backend_;
};

/// One user of a Storage. Its callbacks run on threads of the back end; none runs, and no memory it was given
/// is written to, once it is destroyed.
class Reader {
 public:
  explicit Reader(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}
  ~Reader() { storage_->queue_->leave(this); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Starts reads, at least one, none overlapping another. `done` is called once, later, with the first
  /// error.
  ReadTicket start(Reads reads, Urgency urgency, std::function<void(flow::Status)> done);
  /// Reads and waits. An error when the run is cancelled meanwhile.
  flow::Status read(Reads reads);
  /// What was guessed is needed now.
  void hurry(const ReadTicket& ticket) { storage_->queue_->hurry(ticket); }
  /// Gives up what has not been started; `done` gets an error.
  void drop(const ReadTicket& ticket) { storage_->queue_->drop(ticket); }

 private:
  const std::shared_ptr<Storage> storage_;
};

inline constexpr flow::Uses<Storage> kIo{"io", "reads from the shards"};

}  // namespace dsv
