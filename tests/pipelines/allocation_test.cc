// A warm step allocates nothing: the allocator of this program counts.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

#include "tests/pipelines/pipeline_run.h"
#include "tests/pipelines/saboteur.h"

namespace {

std::atomic<std::uint64_t> allocations{0};

/// oneTBB keeps a pool of tasks for each thread; tasks that move between threads make it grow now and then.
bool is_task_pool(const void* caller) {
  Dl_info place{};
  return dladdr(caller, &place) != 0 && std::string_view(place.dli_fname).find("libtbb.so") != std::string_view::npos;
}

void count(const void* caller) {
  if (!is_task_pool(caller)) ++allocations;
}

}  // namespace

// Every way to memory that the C library has; operator new goes through them.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_calloc(n, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  *block = __libc_memalign(alignment, bytes);
  return *block ? 0 : ENOMEM;
}
}

namespace dsv::testing {
namespace {

constexpr std::size_t kSteps = 48, kSequences = 4;

/// What had been allocated when each step of each sequence reached the sampler.
using Counts = std::array<std::vector<std::uint64_t>, kSequences>;

Counts counts_of(Sets sets) {
  Counts counts;
  for (auto& of_sequence : counts) of_sequence.reserve(kSteps + 1);
  sets.insert(sets.end(), {{"continuation_ids", list(std::vector<int>(kSteps, 7))}, {"max_new_tokens", "0"}});
  flow::LoadOutcome loaded = load_pipeline({"pipelines/greedy.yaml", "tests/pipelines/again.yaml"}, sets);
  EXPECT_TRUE(loaded.plan) << fmt::format("{}", fmt::join(loaded.errors, "\n"));
  if (!loaded.plan) return counts;
  for (flow::NodePlan& node : loaded.plan->nodes) {
    if (node.name != "sample") continue;
    wrap(node, [&](flow::Context& context) {
      counts[context.stamp().sequence].push_back(allocations);
      return flow::Status();
    });
  }
  const flow::Status status = flow::Runner(*std::move(loaded.plan), {}).run();
  EXPECT_TRUE(status.ok()) << status.message();
  return counts;
}

class WarmStep : public ::testing::TestWithParam<Sets> {};

// The first sequence warms up. Of the others the best counts: threads that meet in another order may need one
// more block of a size, once.
TEST_P(WarmStep, AllocatesNothing) {
  const Counts counts = counts_of(GetParam());
  EXPECT_GT(counts[0].at(0), 10000u) << "the model was loaded: the counter does not count";
  for (std::size_t step = 2; step <= kSteps; ++step) {  // at step 1 the end of the prompt is reported
    std::uint64_t least = ~std::uint64_t{0};
    for (std::size_t s = 1; s < kSequences; ++s) {
      least = std::min(least, counts[s].at(step) - counts[s].at(step - 1));
    }
    EXPECT_EQ(least, 0u) << "step " << step;
  }
}

std::string name_of(const ::testing::TestParamInfo<Sets>& info) {
  std::string name = "Demo";
  for (const auto& [key, value] : info.param) name += "_" + key + "_" + value;
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllWays, WarmStep,
                         ::testing::Values(Sets{}, Sets{{"threads", "1"}}, Sets{{"resident_engram", "true"}},
                                           Sets{{"io", "pread"}},
                                           Sets{{"expert_device", "emulated"}, {"expert_world", "2"}}),
                         name_of);

}  // namespace
}  // namespace dsv::testing
