// Random graphs against a sequential evaluation, run to the end or cancelled anywhere.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;  // sequence, step
constexpr int kSequences = 6;
constexpr std::uint64_t kTurns = 5;

std::int64_t mix(std::int64_t node, std::int64_t sum) {
  return (sum * 31 + node * 17 + 1) % 1'000'003;
}

/// start -> loop -> a random acyclic graph -> last -> loop.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    graph_.runtime = {
        .threads = pick(1, 4), .io_threads = pick(1, 3), .max_in_flight = pick(1, 4), .watchdog = 20};
    graph_.add_counter("start", kSequences);
    graph_.add("loop", {.process = loop, .policy = InputPolicy::any},
               {{"start", "start.out"}, {"next", "last.out", true}});
    const int nodes = pick(3, 12);
    for (int i = 0; i < nodes; ++i) add_node(i, fmt::format("n{}", i), pick(1, 3));
    add_node(nodes, "last", 2);
  }

  TestGraph& graph() { return graph_; }

  /// What each invocation of "last" gave.
  std::map<Key, std::int64_t> results() const {
    std::map<Key, std::int64_t> all;
    for (const auto& [key, value] : log_.items()) EXPECT_TRUE(all.emplace(key, value).second) << "twice";
    return all;
  }
  std::map<Key, std::int64_t> expected() const {
    std::map<Key, std::int64_t> all;
    for (std::uint64_t sequence = 0; sequence < kSequences; ++sequence) {
      auto value = static_cast<std::int64_t>(sequence);
      for (std::uint64_t step = 0; step < kTurns; ++step) all[{sequence, step}] = value = evaluate(value);
    }
    return all;
  }

 private:
  static Status loop(Context& context) {
    const Stamp stamp = context.stamp();
    if (context.has(in("start"))) {
      send(context, value(context, "start"));
    } else if (stamp.step + 1 < kTurns) {
      send_at(context, value(context, "next"), {stamp.sequence, stamp.step + 1});
    }
    return {};
  }

  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }

  void add_node(int index, const std::string& name, int inputs) {
    std::vector<Link> links;
    std::vector<int> producers;
    for (int i = 0; i < inputs; ++i) {
      const int producer = name == "last" && i == 0 ? index - 1 : pick(-1, index - 1);
      producers.push_back(producer);
      links.push_back({"in", producer < 0 ? "loop.out" : fmt::format("n{}.out", producer)});
    }
    const int delay = pick(0, 3) == 0 ? pick(1, 200) : 0;
    Spec spec{.process = [this, index, delay, last = name == "last"](Context& context) -> Status {
      std::int64_t sum = 0;
      for (const Number* n : context.in(many_in("in"))) sum += n->value;
      if (delay) std::this_thread::sleep_for(std::chrono::microseconds(delay));
      send(context, mix(index, sum));
      if (last) log_.add({{context.stamp().sequence, context.stamp().step}, mix(index, sum)});
      return {};
    }};
    spec.executor = pick(0, 2) == 0 ? Executor::io : Executor::compute;
    spec.concurrency = pick(1, 3);
    graph_.add(name, std::move(spec), std::move(links));
    producers_.push_back(std::move(producers));
  }

  /// What "last" gives when "loop" sends `value`.
  std::int64_t evaluate(std::int64_t value) const {
    std::vector<std::int64_t> values;
    for (std::size_t node = 0; node < producers_.size(); ++node) {
      std::int64_t sum = 0;
      for (const int producer : producers_[node]) {
        sum += producer < 0 ? value : values[static_cast<std::size_t>(producer)];
      }
      values.push_back(mix(static_cast<std::int64_t>(node), sum));
    }
    return values.back();
  }

  std::mt19937 random_;
  TestGraph graph_;
  std::vector<std::vector<int>> producers_;
  Log<std::pair<Key, std::int64_t>> log_;
};

TEST(RuntimeRandom, GivesWhatASequentialEvaluationGives) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomGraph random(seed);
    const Status status = run(random.graph());
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
    ASSERT_EQ(random.results(), random.expected()) << "seed " << seed;
  }
}

TEST(RuntimeRandom, CanBeCancelledAtAnyTime) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    RandomGraph random(seed);
    flow::Runner runner(random.graph().plan(), {});
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(seed * 100));
      runner.cancel();
    });
    const Status status = runner.run();
    canceller.join();
    ASSERT_EQ(status.ok(), !runner.cancelled()) << "seed " << seed << ": " << status.message();
    const auto expected = random.expected();
    for (const auto& [key, value] : random.results()) ASSERT_EQ(value, expected.at(key)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace flow_test
