// Small stages, services and values for tests of graph loading; config_stages.cc registers them.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "framework/core/registry.h"

namespace flow_test {

struct Number {
  double value = 0;
};
struct Word {
  std::string text;
};

}  // namespace flow_test

FLOW_PACKET_TYPE(flow_test::Number, "Number");
FLOW_PACKET_TYPE(flow_test::Word, "Word");

namespace flow_test {

using flow::Context;
using flow::InputPolicy;
using flow::Status;

/// A source with an option of every type.
class Count final : public flow::Stage {
 public:
  static constexpr flow::Out<Number> kX{"x", "1, 2, 3, ..."};
  struct Options {
    int count = 3;
    double factor = 1;
    bool loud = false;
    std::string label = "n";
    std::string mode = "up";
    std::filesystem::path file;
    flow::Bytes room;
    std::vector<std::int64_t> ids;
    std::vector<std::string> words;
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Counts.").output(kX);
    s.option("count", &Options::count, "how many").range(1, 100);
    s.option("factor", &Options::factor, "step").range(0);
    s.option("loud", &Options::loud, "says so");
    s.option("label", &Options::label, "a text");
    s.option("mode", &Options::mode, "direction").choices({"up", "down"});
    s.option("file", &Options::file, "a path");
    s.option("room", &Options::room, "a size");
    s.option("ids", &Options::ids, "whole numbers");
    s.option("words", &Options::words, "texts");
  }
  explicit Count(const Options&) {}
  Status process(Context&) override { return {}; }
};

/// Passes x on, so that it can be left out.
class Scale final : public flow::Stage {
 public:
  static constexpr flow::In<Number> kX{"x", "a number"};
  static constexpr flow::OptionalIn<Number> kBias{"bias", "added"};
  static constexpr flow::Out<Number> kY{"x", "scaled"};
  struct Options {
    int layer = 0;
  };
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Scales.").input(kX).input(kBias).output(kY);
    s.option("layer", &Options::layer, "index").required();
  }
  explicit Scale(const Options&) {}
  Status process(Context&) override { return {}; }
};

/// Same ports and options as Scale.
class Shift final : public flow::Stage {
 public:
  using Options = Scale::Options;
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Shifts.").input(Scale::kX).input(Scale::kBias).output(Scale::kY);
    s.option("layer", &Options::layer, "index");
  }
  explicit Shift(const Options&) {}
  Status process(Context&) override { return {}; }
};

class Sum final : public flow::Stage {
 public:
  static constexpr flow::ManyIn<Number> kParts{"parts", "numbers"};
  static constexpr flow::Out<Number> kSum{"sum", "their sum"};
  struct Options {};
  static void describe(flow::StageSpec<Options>& s) { s.doc("Adds.").input(kParts).output(kSum); }
  explicit Sum(const Options&) {}
  Status process(Context&) override { return {}; }
};

/// A loop: runs for each packet.
class Loop final : public flow::Stage {
 public:
  static constexpr flow::In<Number> kStart{"start", "first"};
  static constexpr flow::OptionalIn<Number> kNext{"next", "fed back"};
  static constexpr flow::Out<Number> kX{"x", "current"};
  struct Options {};
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Loops.").input(kStart).input(kNext).output(kX).policy(InputPolicy::any);
  }
  explicit Loop(const Options&) {}
  Status process(Context&) override { return {}; }
};

class Spell final : public flow::Stage {
 public:
  static constexpr flow::In<Number> kX{"x", "a number"};
  static constexpr flow::Out<Word> kWord{"word", "its name"};
  struct Options {};
  static void describe(flow::StageSpec<Options>& s) { s.doc("Spells.").input(kX).output(kWord); }
  explicit Spell(const Options&) {}
  Status process(Context&) override { return {}; }
};

class Store final : public flow::Service {
 public:
  struct Options {
    std::filesystem::path path;
    int slots = 4;
  };
  static void describe(flow::ServiceSpec<Options>& s) {
    s.doc("Stores.");
    s.option("path", &Options::path, "where").required();
    s.option("slots", &Options::slots, "how many").range(1);
  }
  explicit Store(const Options&) {}
};

class Cache final : public flow::Service {
 public:
  static constexpr flow::Uses<Store> kStore{"store", "what is cached"};
  struct Options {
    int size = 1;
  };
  static void describe(flow::ServiceSpec<Options>& s) {
    s.doc("Caches.").uses(kStore);
    s.option("size", &Options::size, "entries");
  }
  explicit Cache(const Options&) {}
};

/// A service that needs another one of its own type.
class Link final : public flow::Service {
 public:
  static constexpr flow::Uses<Link> kNext{"next", "the next one"};
  struct Options {};
  static void describe(flow::ServiceSpec<Options>& s) { s.doc("Links.").uses(kNext); }
  explicit Link(const Options&) {}
};

class Lookup final : public flow::Stage {
 public:
  static constexpr flow::In<Number> kX{"x", "key"};
  static constexpr flow::Out<Number> kY{"y", "value"};
  static constexpr flow::Uses<Store> kStore{"store", "where to look"};
  struct Options {};
  static void describe(flow::StageSpec<Options>& s) {
    s.doc("Looks up.").input(kX).output(kY).uses(kStore).executor(flow::Executor::io);
  }
  explicit Lookup(const Options&) {}
  Status process(Context&) override { return {}; }
};

/// The value type Geometry: n_layers as given, and what is derived from it.
struct GeometryOptions {
  int layers = 4;
};

inline flow::Result<boost::json::object> load_geometry(const void* options) {
  const int layers = static_cast<const GeometryOptions*>(options)->layers;
  if (layers < 0) throw std::runtime_error("layers below zero");
  if (layers == 13) return flow::errorf("13 layers are bad luck");
  boost::json::array ratios;
  for (int i = 0; i < layers; ++i) ratios.push_back(i % 2 == 0 ? 4 : 128);
  return boost::json::object{{"n_layers", layers},
                             {"special", boost::json::array{1, 3}},
                             {"ratios", ratios},
                             {"rope", boost::json::object{{"theta", 1e4}, {"kind", "yarn"}}}};
}

}  // namespace flow_test
