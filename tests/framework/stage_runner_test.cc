// One stage without a graph.
#include "framework/testing/stage_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/framework/test_graph.h"

namespace flow_test {
namespace {

using testing::HasSubstr;

/// A table that Scale uses.
class Table final : public flow::Service {
 public:
  struct Options {};
  static void describe(flow::ServiceSpec<Options>& s) { s.doc("An offset."); }
  Table() = default;
  explicit Table(Options) {}
  std::int64_t offset = 1000;
};

/// Multiplies, adds the extras, and repeats.
class Scale final : public flow::Stage {
 public:
  static constexpr flow::In<Number> kIn{"in", "a number"};
  static constexpr flow::ManyIn<Number> kExtras{"extras", "numbers to add"};
  static constexpr flow::OptionalIn<Number> kMinus{"minus", "a number to subtract"};
  static constexpr flow::Out<Number> kOut{"out", "the result"};
  static constexpr flow::Uses<Table> kTable{"table", "where the offset is"};
  struct Options {
    std::int64_t factor = 1;
    int repeat = 1;
    flow::Bytes size{};
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Test.").input(kIn).input(kExtras).input(kMinus).output(kOut).uses(kTable);
    s.option("factor", &Options::factor, "multiplies").required();
    s.option("repeat", &Options::repeat, "packets to send").range(1, 3);
    s.option("size", &Options::size, "bytes");
  }
  explicit Scale(const Options& options) : options_(options) {}
  Status open(const flow::Opening& opening) override {
    table_ = opening.service(kTable);
    return {};
  }
  Status process(Context& context) override {
    std::int64_t value = context.in(kIn).value * options_.factor;
    for (const Number* n : context.in(kExtras)) value += n->value;
    if (const Number* minus = context.in(kMinus)) value -= minus->value;
    if (table_) value += table_->offset;
    if (value < 0) throw std::runtime_error("negative");
    for (int i = 0; i < options_.repeat; ++i) context.emit(kOut, Number{value + i});
    context.report().set("size", options_.size.count);
    context.console().note("scaled");
    return {};
  }
  Status close(flow::Console& console, flow::RunReport&) override {
    console.out("closed");
    return {};
  }

 private:
  const Options options_;
  std::shared_ptr<Table> table_;
};
FLOW_REGISTER_STAGE(Scale);

TEST(StageRunner, FeedsPacketsAndReturnsEmissions) {
  flow::StageRunner runner("Scale", {{"factor", 10}, {"repeat", 2}, {"size", "2 KiB"}});
  runner.put(Scale::kIn, {3}).put(Scale::kExtras, {1}).put(Scale::kExtras, {2});
  const Status status = runner.run({4, 2});
  ASSERT_TRUE(status.ok()) << status.message();
  const auto values = runner.all(Scale::kOut);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0]->value, 33);
  EXPECT_EQ(runner.get(Scale::kOut)->value, 34);
  EXPECT_EQ(runner.emissions()[0].packet.stamp(), (Stamp{4, 2}));
  EXPECT_EQ(runner.report().snapshot().at("size").to_number<int>(), 2048);
  EXPECT_EQ(runner.console().notes(), "scaled\n");
}

TEST(StageRunner, GivesServicesAndOptionalInputs) {
  flow::StageRunner runner("Scale", {{"factor", 1}});
  runner.service("table", std::make_shared<Table>());
  runner.put(Scale::kIn, {5}).put(Scale::kExtras, {0}).put(Scale::kMinus, {2});
  ASSERT_TRUE(runner.run().ok());
  EXPECT_EQ(runner.get(Scale::kOut)->value, 1003);
}

TEST(StageRunner, RunsAgainWithTheSameOrOtherInputs) {
  flow::StageRunner runner("Scale", {{"factor", 2}});
  runner.put(Scale::kIn, {1}).put(Scale::kExtras, {0});
  ASSERT_TRUE(runner.run().ok());
  ASSERT_TRUE(runner.run().ok());
  EXPECT_EQ(runner.get(Scale::kOut)->value, 2);
  runner.clear();
  runner.put(Scale::kIn, {7}).put(Scale::kExtras, {0});
  ASSERT_TRUE(runner.run().ok());
  EXPECT_EQ(runner.get(Scale::kOut)->value, 14);
  ASSERT_TRUE(runner.close().ok());
  EXPECT_EQ(runner.console().text(), "closed");
}

struct Misuse {
  const char* name;
  std::string stage;
  boost::json::object options;
  std::vector<std::string> inputs;
  const char* message;
};
class StageRunnerMisuse : public testing::TestWithParam<Misuse> {};

TEST_P(StageRunnerMisuse, IsAnError) {
  flow::StageRunner runner(GetParam().stage, GetParam().options);
  for (const std::string& input : GetParam().inputs) runner.put(in(input), {-1});
  EXPECT_EQ(runner.run().message(), GetParam().message);
}
INSTANTIATE_TEST_SUITE_P(
    Cases, StageRunnerMisuse,
    testing::Values(
        Misuse{"unknown_stage", "Scael", {}, {}, "stage Scael: is not registered"},
        Misuse{"unknown_option", "Scale", {{"facto", 1}}, {}, "stage Scale: no option 'facto'"},
        Misuse{"missing_option", "Scale", {}, {}, "stage Scale: option 'factor' is missing"},
        Misuse{"wrong_type",
               "Scale",
               {{"factor", "x"}},
               {},
               "stage Scale: option 'factor': expected int, found 'x'"},
        Misuse{"out_of_range",
               "Scale",
               {{"factor", 1}, {"repeat", 4}},
               {},
               "stage Scale: option 'repeat': 4 is outside 1 to 3"},
        Misuse{"unknown_input", "Scale", {{"factor", 1}}, {"inn"}, "Scale: no input 'inn'"},
        Misuse{"missing_input",
               "Scale",
               {{"factor", 1}},
               {"extras"},
               "Scale: input 'in' has 0 packets instead of one"},
        Misuse{"two_packets",
               "Scale",
               {{"factor", 1}},
               {"in", "in", "extras"},
               "Scale: input 'in' has 2 packets instead of one"},
        Misuse{"exception", "Scale", {{"factor", 1}}, {"in", "extras"}, "Scale: exception: negative"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace flow_test
