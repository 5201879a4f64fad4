// One graph made of several: repeats, stages left out, composites, overlays and swaps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/framework/config_fixture.h"
#include "tests/framework/config_stages.h"

namespace flow_test {
namespace {

using flow::GraphPlan;
using testing::ElementsAre;

using RepeatedStages = GraphTest;

TEST_F(RepeatedStages, AreNamedByIndexOrValue) {
  const GraphPlan graph = plan(R"(
values: {config: {type: Geometry}}
stages:
  - {name: a, stage: Count}
  - {name: r, stage: Scale, in: {x: a.x}, options: {layer: "${i}"}, repeat: {var: i, over: "${config.special}"}}
  - {name: s, stage: Scale, in: {x: "r.${config.special[k]}.x"}, options: {layer: "${k}"}, repeat: {var: k, count: 2}}
  - {name: t, stage: Scale, in: {x: a.x}, options: {layer: 0}, repeat: {var: w, over: [left, right]}}
  - {name: sum, stage: Sum, in: {parts: ["s[*].x", "r.3.x"]}}
)");
  EXPECT_THAT(node_names(graph), ElementsAre("a", "r.1", "r.3", "s.0", "s.1", "t.left", "t.right", "sum"));
  EXPECT_EQ(options<Scale::Options>(graph, "r.3").layer, 3);
  EXPECT_THAT(edges(graph), ElementsAre("r.1.x <- a.x", "r.3.x <- a.x", "s.0.x <- r.1.x", "s.1.x <- r.3.x",
                                        "t.left.x <- a.x", "t.right.x <- a.x", "sum.parts <- s.0.x",
                                        "sum.parts <- s.1.x", "sum.parts <- r.3.x"));
}

TEST_F(RepeatedStages, ChainWithCarry) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: l, stage: Scale, options: {layer: "${i}"}, repeat: {var: i, count: 3, carry: {x: a.x}}}
  - {name: out, stage: Spell, in: {x: l.x}}
  - {name: mid, stage: Spell, in: {x: l.1.x}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("l.0.x <- a.x", "l.1.x <- l.0.x", "l.2.x <- l.1.x", "out.x <- l.2.x",
                                        "mid.x <- l.1.x"));
}

TEST_F(RepeatedStages, PassTheCarryOnWhenThereIsNoCopy) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: l, stage: Scale, options: {layer: 0}, repeat: {var: i, count: 0, carry: {x: a.x}}}
  - {name: out, stage: Spell, in: {x: l.x}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("out.x <- a.x"));
}

using LeftOut = GraphTest;

TEST_F(LeftOut, StagesPassTheInputOfTheSameNameOn) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: l, stage: Scale, when: "i % 2 == 0", options: {layer: "${i}"}, repeat: {var: i, count: 4, carry: {x: a.x}}}
  - {name: b, stage: Scale, when: false, in: {x: l.x}, options: {layer: 0}}
  - {name: out, stage: Spell, in: {x: b.x}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("l.0.x <- a.x", "l.2.x <- l.0.x", "out.x <- l.2.x"));
}

TEST_F(LeftOut, StagesAreNotEvaluated) {
  const GraphPlan graph = plan(R"(
values: {config: {type: Geometry, layers: 2}}
stages:
  - {name: a, stage: Count}
  - {name: l, stage: Scale, when: "i < 2", options: {layer: "${config.ratios[i]}"}, in: {x: a.x}, repeat: {var: i, count: 3}}
)");
  EXPECT_THAT(node_names(graph), ElementsAre("a", "l.0", "l.1"));
}

TEST_F(LeftOut, StagesOfAThousandCopiesAreFollowed) {
  const GraphPlan graph = plan(R"(
stages:
  - {name: out, stage: Spell, in: {x: l.x}}
  - {name: a, stage: Count}
  - {name: l, stage: Scale, when: false, options: {layer: 0}, repeat: {var: i, count: 50000, carry: {x: a.x}}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("out.x <- a.x"));
}

class Composites : public GraphTest {
 protected:
  Composites() {
    write("layer.yaml", R"(
inputs:  {x: Number, extra: "Number?"}
outputs: {x: last.x}
params:
  depth: {type: int, default: 1}
  label: {type: text, default: "layer ${layer}"}
stages:
  - {name: first, stage: Scale, in: {x: $x, bias: $extra}, options: {layer: "${layer}"}}
  - {name: last, stage: Scale, in: {x: first.x}, options: {layer: "${depth}"}}
)");
  }
};

TEST_F(Composites, UnrollIntoNodes) {
  const GraphPlan graph = plan(R"(
values: {config: {type: Geometry, layers: 3}}
stages:
  - {name: a, stage: Count}
  - {name: r, stage: Scale, in: {x: a.x}, options: {layer: "${i}"}, repeat: {var: i, over: [1]}}
  - {name: layers, graph: layer.yaml, params: {depth: "${layer + 10}"}, in: {extra: "r.${layer}.x?"},
     repeat: {var: layer, count: "${config.n_layers}", carry: {x: a.x}}}
  - {name: out, stage: Spell, in: {x: layers.x}}
)");
  EXPECT_THAT(edges(graph),
              ElementsAre("r.1.x <- a.x", "layers.0.first.x <- a.x", "layers.0.last.x <- layers.0.first.x",
                          "layers.1.first.x <- layers.0.last.x", "layers.1.first.bias <- r.1.x",
                          "layers.1.last.x <- layers.1.first.x", "layers.2.first.x <- layers.1.last.x",
                          "layers.2.last.x <- layers.2.first.x", "out.x <- layers.2.last.x"));
  EXPECT_EQ(options<Scale::Options>(graph, "layers.2.first").layer, 2);
  EXPECT_EQ(options<Scale::Options>(graph, "layers.2.last").layer, 12);
  EXPECT_EQ(graph.nodes[3].where.str(), "layer.yaml:9:5");
}

TEST_F(Composites, NestAndTakeManyEdges) {
  write("pair.yaml", R"(
inputs: {numbers: "Number*"}
outputs: {sum: sum.sum}
stages:
  - {name: sum, stage: Sum, in: {parts: $numbers}}
)");
  write("outer.yaml", R"(
inputs: {x: Number}
outputs: {y: pair.sum}
stages:
  - {name: l, graph: layer.yaml, in: {x: $x}, repeat: {var: layer, count: 2}}
  - {name: pair, graph: pair.yaml, in: {numbers: ["l[*].x", $x]}}
)");
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: o, graph: outer.yaml, in: {x: a.x}}
  - {name: out, stage: Spell, in: {x: o.y}}
)");
  EXPECT_THAT(edges(graph),
              testing::IsSupersetOf({"o.pair.sum.parts <- o.l.0.last.x", "o.pair.sum.parts <- o.l.1.last.x",
                                     "o.pair.sum.parts <- a.x", "out.x <- o.pair.sum.sum"}));
}

TEST_F(Composites, AreFoundInTheDataFolders) {
  write("data/graphs/far.yaml", "outputs: {x: a.x}\nstages: [{name: a, stage: Count}]\n");
  const GraphPlan graph =
      plan("stages: [{name: f, graph: far.yaml}, {name: b, stage: Spell, in: {x: f.x}}]\n",
           {.data_dirs = {"data"}});
  EXPECT_THAT(node_names(graph), ElementsAre("f.a", "b"));
  EXPECT_EQ(graph.nodes[0].where.str(), "data/graphs/far.yaml:2:10");
}

TEST_F(Composites, CarryFeedbackMarksThrough) {
  write("loop.yaml", R"(
inputs: {start: Number, next: "Number?"}
outputs: {x: loop.x}
stages: [{name: loop, stage: Loop, in: {start: $start, next: $next}}]
)");
  const GraphPlan graph = plan(R"(
stages:
  - {name: a, stage: Count}
  - {name: l, graph: loop.yaml, in: {start: a.x, next: {from: s.x, feedback: true}}}
  - {name: s, stage: Scale, in: {x: l.x}, options: {layer: 0}}
)");
  EXPECT_THAT(edges(graph), ElementsAre("l.loop.start <- a.x", "l.loop.next <~ s.x", "s.x <- l.loop.x"));
}

TEST_F(Composites, ReportTheirErrorsOnce) {
  write("bad.yaml", R"(
inputs: {x: Number}
outputs: {x: s.x}
stages:
  - {name: s, stage: Scale, in: {x: $x}, options: {lyer: 1}}
)");
  const auto outcome = load(R"(
stages:
  - {name: a, stage: Count}
  - {name: l, graph: bad.yaml, repeat: {var: i, count: 43, carry: {x: a.x}}}
)");
  EXPECT_THAT(outcome.errors,
              ElementsAre("bad.yaml:5:51: stage 'l.0.s' (Scale): option 'layer' is required",
                          "bad.yaml:5:52: stage 'l.0.s' (Scale): no option 'lyer'; did you mean 'layer'?"));
}

class Overlays : public Composites {
 protected:
  static constexpr const char* kBase = R"(
params: {n: {type: int, default: 2}}
stages:
  - {name: a, stage: Count, options: {count: "${n}", label: base}}
  - {name: layers, graph: layer.yaml, repeat: {var: layer, count: 3, carry: {x: a.x}}}
  - {name: out, stage: Spell, in: {x: layers.x}}
)";
  GraphPlan overlaid(const std::string& overlay) {
    write("o.yaml", overlay);
    return plan(kBase, {.files = {"o.yaml"}});
  }
};

TEST_F(Overlays, MergeParamsAndOptionsByName) {
  const GraphPlan graph = overlaid(R"(
params: {n: {default: 5}, m: {type: int, default: 7}}
runtime: {threads: "${m}"}
stages: {a: {options: {label: "over ${n}", loud: true}}}
)");
  const auto& o = options<Count::Options>(graph, "a");
  EXPECT_EQ(o.count, 5);
  EXPECT_EQ(o.label, "over 5");
  EXPECT_TRUE(o.loud);
  EXPECT_EQ(graph.runtime.threads, 7);
}

TEST_F(Overlays, GiveParametersOtherDefaults) {
  EXPECT_EQ(options<Count::Options>(overlaid("params: {n: 5}\n"), "a").count, 5);
  write("o.yaml", "params: {n: none, m: 3}\n");
  EXPECT_THAT(load(kBase, {.files = {"o.yaml"}}).errors,
              ElementsAre("o.yaml:1:13: param 'n': default: expected int, found 'none'",
                          "o.yaml:1:19: param 'm': has no type"));
}

TEST_F(Overlays, SelectStagesByPattern) {
  const GraphPlan graph = overlaid("stages: [{name: layers.*.last, stage: Shift, options: {layer: 20}}]\n");
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(graph.node("layers.2.last"))].stage->name, "Shift");
  EXPECT_EQ(options<Scale::Options>(graph, "layers.1.last").layer, 20);
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(graph.node("layers.2.first"))].stage->name, "Scale");
}

TEST_F(Overlays, RemoveStagesAndKeys) {
  const GraphPlan graph = overlaid(
      "stages: {layers.1: {remove: true}, layers.*.last: {remove: true}, a: {options: {count: null}}}\n");
  EXPECT_THAT(edges(graph), ElementsAre("layers.0.first.x <- a.x", "layers.2.first.x <- layers.0.first.x",
                                        "out.x <- layers.2.first.x"));
  EXPECT_EQ(options<Count::Options>(graph, "a").count, 3) << "the default of the type";
}

TEST_F(Overlays, AddStagesAndRewireOthers) {
  const GraphPlan graph = overlaid(R"(
stages:
  - {name: extra, stage: Scale, in: {x: layers.x}, options: {layer: 9}}
  - {name: out, in: {x: extra.x}}
  - {name: layers, repeat: {var: layer, count: 1, carry: {x: a.x}}}
)");
  EXPECT_THAT(edges(graph), testing::IsSupersetOf({"extra.x <- layers.0.last.x", "out.x <- extra.x"}));
}

TEST_F(Overlays, SwapStageTypesFromTheCommandLine) {
  const GraphPlan graph = plan(kBase, {.swaps = {{"layers.*.first", "Shift"}}});
  EXPECT_EQ(graph.nodes[static_cast<std::size_t>(graph.node("layers.0.first"))].stage->name, "Shift");
  EXPECT_EQ(options<Scale::Options>(graph, "layers.2.first").layer, 2) << "options stay";
}

using Bases = GraphTest;

TEST_F(Bases, AreCompletedByTheFileThatNamesThem) {
  write("pipes/base.yaml",
        "doc: A base.\nparams: {n: {type: int, default: 3}}\nstages:\n  - {name: a, stage: Count}\n"
        "  - {name: b, stage: Scale, in: {x: a.x}, options: {layer: \"${n}\"}}\n");
  write("pipes/middle.yaml", "base: base.yaml\ndoc: A middle.\nparams: {n: 4}\n");
  write("top.yaml",
        "base: pipes/middle.yaml\ndoc: A top.\nstages:\n  - {name: c, stage: Spell, in: {x: b.x}}\n");
  const auto outcome = flow::load_graph({.files = {"top.yaml"}});
  ASSERT_TRUE(outcome.plan) << outcome.errors.front();
  EXPECT_THAT(edges(*outcome.plan), ElementsAre("b.x <- a.x", "c.x <- b.x"));
  EXPECT_EQ(options<Scale::Options>(*outcome.plan, "b").layer, 4);
  EXPECT_EQ(outcome.plan->file, "top.yaml");
  const auto help = flow::describe_pipeline({.files = {"top.yaml"}});
  ASSERT_TRUE(help.ok());
  EXPECT_EQ(help->doc, "A top.");
}

TEST_F(Bases, ThatAreMissingOrInACircleAreReportedWhereTheyAreNamed) {
  const auto errors = [](const std::string& file) { return flow::load_graph({.files = {file}}).errors; };
  write("a.yaml", "base: b.yaml\n");
  write("b.yaml", "doc: b\nbase: a.yaml\n");
  EXPECT_THAT(errors("a.yaml"), ElementsAre("b.yaml:2:7: base: 'a.yaml' is based on itself"));
  write("c.yaml", "base: bb.yaml\n");
  EXPECT_THAT(errors("c.yaml"), ElementsAre(testing::StartsWith("c.yaml:1:7: no file 'bb.yaml'")));
  write("d.yaml", "base: [a.yaml]\n");
  EXPECT_THAT(errors("d.yaml"), ElementsAre("d.yaml:1:7: base: expected the name of a file, found a list"));
}

TEST_F(Overlays, ReportWhatTheyDoNotFind) {
  write("o.yaml", "stages: {layers.*.lst: {stage: Shift}, aa: {options: {}}}\nstgaes: []\n");
  const auto outcome =
      load(kBase, {.files = {"o.yaml"}, .swaps = {{"layers.*.frist", "Shift"}, {"out", "Spel"}}});
  EXPECT_THAT(outcome.errors,
              ElementsAre("--swap out=Spel: stage 'out': no stage type 'Spel'; did you mean 'Spell'?",
                          "o.yaml:2:1: no key 'stgaes'; did you mean 'stages'?"));
  write("o.yaml", "stages: {layers.*.lst: {stage: Shift}, aa: {options: {}}}\n");
  EXPECT_THAT(
      load(kBase, {.files = {"o.yaml"}, .swaps = {{"layers.*.frist", "Shift"}}}).errors,
      ElementsAre("--swap layers.*.frist=Shift: no stage 'layers.*.frist'; did you mean 'layers.*.first'?",
                  "o.yaml:1:10: no stage 'layers.*.lst'; did you mean 'layers.*.last'?",
                  "o.yaml:1:40: no stage 'aa'; did you mean 'a'?"));
}

TEST_F(Overlays, MustChangeTheStagesThatTheyName) {
  write("o.yaml", "stages:\n  - {name: a}\n");
  EXPECT_THAT(load(kBase, {.files = {"o.yaml"}}).errors,
              ElementsAre("o.yaml:2:12: stage 'a': nothing is changed; a name alone says nothing"));
}
}  // namespace
}  // namespace flow_test
