// Runs a checked graph: opens services and stages, moves packets on a oneTBB flow graph, closes everything.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/console.h"
#include "framework/core/plan.h"
#include "framework/core/status.h"
#include "framework/trace/recorder.h"

namespace flow {

/// Record every packet of the output `port` ("node.output") in the file `path`; its extension chooses the
/// format. The file appears when the run has succeeded.
struct TapRequest {
  std::string port;
  std::string path;
};

/// Show every packet of the output `port` ("node.output") to `see`, one at a time, on a thread that may
/// block. An error ends the run.
struct Probe {
  std::string port;
  std::function<Status(const Packet&)> see;
};

/// Shared ownership: should a body never return, it keeps what it may still use.
struct RunOptions {
  std::shared_ptr<Console> console = {};   ///< null: silent
  std::shared_ptr<RunReport> report = {};  ///< null: nobody reads it
  std::vector<TapRequest> taps = {};
  std::shared_ptr<Recorder> recorder = {};  ///< null: no trace, and no cost
  std::vector<Probe> probes = {};
};

class Run;

/// One run of a graph. For another run make another Runner; any number may follow each other, or run side
/// by side, in one process.
class Runner {
 public:
  Runner(GraphPlan plan, RunOptions options);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  /// The memory and I/O that services and stages say they need, without opening anything.
  Result<std::vector<PlanLine>> dry_run();

  /// Opens, runs until nothing is left to do, closes. The first error ends the run and is returned as
  /// "file:line:column: stage 'name' (Type): message"; so does a time without progress longer than
  /// `runtime.watchdog`. When a body does not return even then, run() returns all the same: the body's
  /// thread and what it uses are left to it, and closed if it ever returns. May be called once.
  Status run();

  /// Ends the run: no further body starts, `context.cancelled()` becomes true, run() returns an error
  /// when the bodies in flight have returned. Callable from any thread and from a signal handler, also
  /// before run().
  void cancel();

  /// Whether cancel() ended the run (and not an error, or the work's end, before it).
  bool cancelled() const;

  /// Whether run() returned although a body had not. A program that ends now should do so with std::_Exit:
  /// the body may still use what static destructors destroy.
  bool left_behind() const;

 private:
  std::shared_ptr<Run> run_;
};

}  // namespace flow
