// Stages from shared libraries.
#include "framework/runtime/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "framework/core/registry.h"
#include "framework/testing/stage_runner.h"
#include "stages/model/packets.h"

namespace {

using flow::load_plugin;
using testing::HasSubstr;

// In this order: a conflict spoils the registry for the tests after it.

TEST(Plugin, RegistersItsStages) {
  ASSERT_EQ(flow::Registry::instance().stage("PluginStage"), nullptr);
  const flow::Status status = load_plugin(PLUGIN_GOOD);
  ASSERT_TRUE(status.ok()) << status.message();
  flow::StageRunner runner("PluginStage", {{"word", "world"}});
  ASSERT_TRUE(runner.run().ok());
  EXPECT_EQ(runner.console().text(), "world");
}

TEST(Plugin, CanBeLoadedAgain) {
  EXPECT_TRUE(load_plugin(PLUGIN_GOOD).ok());
  EXPECT_TRUE(load_plugin(PLUGIN_GOOD).ok());
  EXPECT_TRUE(flow::Registry::instance().conflicts().empty());
}

TEST(Plugin, IsRefusedWhenItIsNotThere) {
  EXPECT_EQ(load_plugin("nowhere/libmine.so").message(), "plugin 'nowhere/libmine.so' does not exist");
}

TEST(Plugin, IsRefusedWhenItIsNoLibrary) {
  const std::string path = testing::TempDir() + "/text.so";
  std::ofstream(path) << "not a library\n";
  EXPECT_THAT(load_plugin(path).message(), HasSubstr("cannot load plugin '" + path + "': "));
}

TEST(Plugin, IsRefusedWhenItDoesNotSayThatItIsOne) {
  EXPECT_EQ(load_plugin(PLUGIN_NOT).message(), "'" PLUGIN_NOT "' is not a plugin: it has no FLOW_PLUGIN()");
}

TEST(Plugin, IsRefusedBeforeItRunsWhenItWasBuiltForAnotherVersion) {
  EXPECT_EQ(load_plugin(PLUGIN_OTHER_VERSION).message(),
            "plugin '" PLUGIN_OTHER_VERSION
            "' was built for another version of the framework; build it anew");
}

TEST(ExamplePlugin, TakesTokensOutOfTheLogits) {
  const flow::Status status = load_plugin(PLUGIN_EXAMPLE);
  ASSERT_TRUE(status.ok()) << status.message();
  constexpr flow::In<dsv::Logits> kIn{"logits", ""};
  constexpr flow::Out<dsv::Logits> kOut{"logits", ""};
  dsv::Logits logits;
  logits.rows = dsv::Rows<float>(2, 4);
  flow::StageRunner runner("ForbidTokens", {{"ids", {1, 3}}});
  runner.put(kIn, logits);
  ASSERT_TRUE(runner.run().ok());
  const auto result = runner.get(kOut);
  ASSERT_NE(result, nullptr);
  for (int row = 0; row < 2; ++row) {
    for (int id = 0; id < 4; ++id) {
      EXPECT_EQ(result->rows.row(row)[id], id % 2 ? std::numeric_limits<float>::lowest() : 0.0F);
    }
  }
  flow::StageRunner wrong("ForbidTokens", {{"ids", {4}}});
  wrong.put(kIn, logits);
  EXPECT_EQ(wrong.run().message(), "ForbidTokens: token 4 is outside 0 to 3");
}

TEST(Plugin, IsRefusedWhenItsNamesExistAlready) {
  ASSERT_TRUE(load_plugin(PLUGIN_GOOD).ok());
  EXPECT_EQ(load_plugin(PLUGIN_CONFLICT).message(),
            "plugin '" PLUGIN_CONFLICT "' registers names that exist already: PluginStage");
}

}  // namespace
