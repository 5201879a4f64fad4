// One graph file: its parameters, values, services and edges; which files are graphs, and how large one may
// be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/framework/config_fixture.h"
#include "tests/framework/config_stages.h"

namespace flow_test {
namespace {

using flow::GraphPlan;
using flow::LoadRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Params = GraphTest;

constexpr const char* kParams = R"(
doc: A test.
params:
  n:     {type: int, default: 3, min: 1, max: 9, doc: how many}
  twice: {type: int, default: "${n * 2}"}
  f:     {type: float, default: 2}
  name:  {type: text, default: 123}
  mode:  {type: text, default: up, choices: [up, down]}
  size:  {type: bytes, default: 1KiB}
  ids:   {type: ints, default: [1, 2]}
  must:  {type: path, doc: "a file"}
stages:
  - {name: a, stage: Count, options: {count: "${twice}", factor: "${f}", label: "${name}-${n}", mode: "${mode}",
      file: "${must}", room: "${size}", ids: "${ids}", words: [x, "${name}"], loud: true}}
)";

TEST_F(Params, ReachTheOptionsOfStages) {
  const GraphPlan graph = plan(kParams, {.sets = {{"must", "a/b"}}});
  const auto& o = options<Count::Options>(graph, "a");
  EXPECT_EQ(o.count, 6);
  EXPECT_EQ(o.factor, 2.0);
  EXPECT_EQ(o.label, "123-3");
  EXPECT_EQ(o.file, "a/b");
  EXPECT_EQ(o.room.count, 1024u);
  EXPECT_THAT(o.ids, ElementsAre(1, 2));
  EXPECT_THAT(o.words, ElementsAre("x", "123"));
  EXPECT_TRUE(o.loud);
  EXPECT_EQ(graph.params.at("twice"), boost::json::value(6));
}

TEST_F(Params, AreSetFromTheCommandLine) {
  const GraphPlan graph = plan(
      kParams, {.sets = {{"must", "x"}, {"n", "4"}, {"ids", "7,8,9"}, {"size", "2 MiB"}, {"mode", "down"}}});
  const auto& o = options<Count::Options>(graph, "a");
  EXPECT_EQ(o.count, 8) << "defaults see what is set";
  EXPECT_THAT(o.ids, ElementsAre(7, 8, 9));
  EXPECT_EQ(o.room.count, 2u << 20);
  EXPECT_EQ(o.mode, "down");
}

TEST_F(Params, ReportEveryBadSetting) {
  const auto outcome = load(kParams, {.sets = {{"nam", "1"}, {"n", "10"}, {"f", "x"}, {"mode", "left"}}});
  EXPECT_THAT(outcome.errors,
              ElementsAre("--set nam: no param 'nam'; did you mean 'name'?", "--set n: 10 is outside 1 to 9",
                          "--set f: expected float, found 'x'", "--set mode: 'left' is none of: up, down",
                          "x.yaml:11:3: param 'must': has no default; give it a value with --set must=..."));
}

TEST_F(Params, AreDescribedForHelp) {
  write("x.yaml", kParams);
  const auto help = flow::describe_pipeline({.files = {"x.yaml"}});
  ASSERT_TRUE(help.ok()) << help.status().message();
  EXPECT_EQ(help->doc, "A test.");
  ASSERT_EQ(help->params.size(), 8u);
  EXPECT_EQ(help->params[0].name, "n");
  EXPECT_EQ(help->params[0].doc, "how many");
  EXPECT_EQ(help->params[0].max, 9);
  EXPECT_EQ(help->params[1].default_value, boost::json::value(6));
  EXPECT_TRUE(help->params[7].required);
}

using Values = GraphTest;

TEST_F(Values, AreLoadedBeforeStagesAndSeenEverywhere) {
  const GraphPlan graph = plan(R"(
params: {layers: {type: int, default: 2}}
values: {config: {type: Geometry, layers: "${layers + 1}"}}
runtime: {threads: "${config.n_layers}", watchdog: 1.5}
services: {store: {type: Store, path: p, slots: "${config.ratios[1]}"}}
stages: [{name: a, stage: Count, options: {count: "${config.n_layers}", label: "${config.rope.kind}"}}]
)");
  EXPECT_EQ(options<Count::Options>(graph, "a").count, 3);
  EXPECT_EQ(options<Count::Options>(graph, "a").label, "yarn");
  EXPECT_EQ(graph.runtime.threads, 3);
  EXPECT_EQ(graph.runtime.io_threads, 4);
  EXPECT_EQ(graph.runtime.watchdog, 1.5);
  EXPECT_EQ(static_cast<const Store::Options*>(graph.services[0].options.get())->slots, 128);
}

TEST_F(Values, ThatThrowAreErrorsOfTheirPlace) {
  EXPECT_THAT(
      load("values: {config: {type: Geometry, layers: -1}}\nstages: [{name: a, stage: Count}]\n").errors,
      ElementsAre("x.yaml:1:10: value 'config' (Geometry): exception: layers below zero"));
}

using Services = GraphTest;

TEST_F(Services, OpenAfterWhatTheyUse) {
  const GraphPlan graph = plan(R"(
services:
  cache: {type: Cache, store: back}
  front: {type: Store, path: f}
  back:  {type: Store, path: b}
stages:
  - {name: a, stage: Count}
  - {name: b, stage: Lookup, in: {x: a.x}, services: {store: front}}
)");
  ASSERT_EQ(graph.services.size(), 3u);
  EXPECT_EQ(graph.services[0].name, "front");
  EXPECT_EQ(graph.services[1].name, "back");
  EXPECT_EQ(graph.services[2].name, "cache");
  EXPECT_THAT(graph.services[2].uses, ElementsAre(1));
  EXPECT_THAT(graph.nodes[1].uses, ElementsAre(0));
}

TEST_F(Services, AreFoundByNameOrByBeingTheOnlyOneOfTheirType) {
  const char* stages = "stages: [{name: a, stage: Count}, {name: b, stage: Lookup, in: {x: a.x}}]\n";
  const GraphPlan only = plan(std::string("services: {other: {type: Store, path: p}}\n") + stages);
  EXPECT_THAT(only.nodes[1].uses, ElementsAre(0));
  const GraphPlan named =
      plan(std::string("services: {z: {type: Store, path: p}, store: {type: Store, path: p}}\n") + stages);
  EXPECT_EQ(named.services[static_cast<std::size_t>(named.nodes[1].uses[0])].name, "store");
}

using Edges = GraphTest;

TEST_F(Edges, MayPointForwardAndNodesComeInTopologicalOrder) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: sum, stage: Sum, in: {parts: [b.x, a.x, b.x]}}
  - {name: b, stage: Scale, in: {x: a.x}, options: {layer: 1}}
  - {name: a, stage: Count}
)");
  EXPECT_THAT(node_names(graph), ElementsAre("a", "b", "sum"));
  EXPECT_THAT(edges(graph),
              ElementsAre("b.x <- a.x", "sum.parts <- b.x", "sum.parts <- a.x", "sum.parts <- b.x"));
}

TEST_F(Edges, FeedBackWhereTheyAreMarked) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: loop, stage: Loop, in: {start: a.x, next: {from: b.x, feedback: true}}}
  - {name: b, stage: Scale, in: {x: loop.x}, options: {layer: 0}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("loop.start <- a.x", "loop.next <~ b.x", "b.x <- loop.x"));
}

TEST_F(Edges, StayUnconnectedWhenOptionalReferencesLeadNowhere) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: b, stage: Scale, in: {x: a.x, bias: "nobody.x?"}, options: {layer: 0}}
  - {name: c, stage: Scale, in: {x: b.x, bias: "a.y?"}, options: {layer: 0}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("b.x <- a.x", "c.x <- b.x"));
}

TEST_F(Edges, RunOnTheExecutorOfTheTypeOrOfTheFile) {
  const GraphPlan graph = plan(R"(
services: {store: {type: Store, path: p}}
stages:
  - {name: a, stage: Count, executor: io}
  - {name: b, stage: Lookup, in: {x: a.x}}
  - {name: c, stage: Lookup, in: {x: b.y}, executor: compute}
)");
  EXPECT_EQ(graph.nodes[0].executor, flow::Executor::io);
  EXPECT_EQ(graph.nodes[1].executor, flow::Executor::io);
  EXPECT_EQ(graph.nodes[2].executor, flow::Executor::compute);
}

using Files = GraphTest;

TEST_F(Files, AreFoundByNameInTheDataFolders) {
  write("data/pipelines/greedy.yaml", "stages: [{name: a, stage: Count}]\n");
  for (const char* name : {"greedy", "greedy.yaml", "pipelines/greedy.yaml"}) {
    const auto outcome = flow::load_graph({.files = {name}, .data_dirs = {"data"}});
    EXPECT_THAT(outcome.errors, IsEmpty()) << name;
    ASSERT_TRUE(outcome.plan) << name;
    EXPECT_EQ(outcome.plan->file, "data/pipelines/greedy.yaml");
  }
  EXPECT_THAT(flow::load_graph({.files = {"gredy.yaml"}, .data_dirs = {"data"}}).errors,
              ElementsAre("no file 'gredy.yaml'; did you mean 'greedy.yaml'?"));
}

TEST_F(Files, ThatAreNoGraphsAreRefused) {
  std::filesystem::create_directory("folder");
  write("empty.yaml", "");
  write("list.yaml", "- a\n");
  write("latin.yaml", "a: 1\nb: caf\xE9\n");
  write("nul.yaml", std::string("a: \0", 4));
  write("big.yaml", std::string(std::size_t{4} << 20, ' ') + "a: 1");
  write("utf16.yaml", std::string("\xFF\xFE"
                                  "a\0",
                                  4));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"folder", "'folder' is a folder, expected a YAML file"},
      {"empty.yaml", "empty.yaml:1:1: expected a map with stages, found an empty file"},
      {"list.yaml", "list.yaml:1:1: expected a map with stages, found a list"},
      {"latin.yaml", "latin.yaml:2:7: not UTF-8: byte 0xe9"},
      {"nul.yaml", "nul.yaml:1:4: control character 0x00"},
      {"big.yaml", "'big.yaml' is larger than 4194304 bytes, the limit for a graph file"},
      {"utf16.yaml", "utf16.yaml:1:1: not UTF-8: byte 0xff"},
  };
  for (const auto& [name, error] : cases) {
    EXPECT_THAT(flow::load_graph({.files = {name}}).errors, ElementsAre(error)) << name;
  }
}

using Limits = GraphTest;

TEST_F(Limits, HoldForRepeatCounts) {
  const auto outcome = load(R"(
stages:
  - {name: a, stage: Count, repeat: {var: i, count: 5000000000}}
  - {name: b, stage: Count, repeat: {var: i, count: -1}}
)");
  EXPECT_THAT(
      outcome.errors,
      ElementsAre("x.yaml:3:53: stage 'a': repeat count 5000000000 exceeds the limit: 100000 more stages",
                  "x.yaml:4:53: stage 'b': repeat count: expected an int from 0, found -1"));
}

TEST_F(Limits, HoldForNestedRepeats) {
  write("c.yaml", "stages: [{name: a, stage: Count, repeat: {var: i, count: 50000}}]\n");
  const auto outcome = load("stages: [{name: c, graph: c.yaml, repeat: {var: k, count: 50000}}]\n");
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_THAT(outcome.errors[0], HasSubstr("exceeds the limit"));
}

TEST_F(Limits, HoldForDoublingComposites) {
  write("c0.yaml", "stages: [{name: a, stage: Count}]\n");
  for (int i = 1; i <= 30; ++i) {
    write(fmt::format("c{}.yaml", i),
          fmt::format("stages: [{{name: l, graph: c{0}.yaml}}, {{name: r, graph: c{0}.yaml}}]\n", i - 1));
  }
  const auto outcome = load("stages: [{name: top, graph: c30.yaml}]\n");
  ASSERT_EQ(outcome.errors.size(), 1u);
  EXPECT_THAT(outcome.errors[0], HasSubstr("more than 100000 stages"));
}

TEST_F(Limits, HoldForQuadraticEdges) {
  const auto outcome = load(R"(
stages:
  - {name: a, stage: Count, repeat: {var: i, count: 20000}}
  - {name: s, stage: Sum, in: {parts: "a[*].x"}, repeat: {var: i, count: 20000}}
)");
  ASSERT_FALSE(outcome.errors.empty());
  EXPECT_THAT(outcome.errors[0], HasSubstr("the graph has more than 2000000 edges"));
}

TEST_F(Limits, AllowALargeGraph) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: l, stage: Scale, options: {layer: "${i}"}, repeat: {var: i, count: 90000, carry: {x: a.x}}}
)");
  EXPECT_EQ(graph.nodes.size(), 90001u);
}
}  // namespace
}  // namespace flow_test
