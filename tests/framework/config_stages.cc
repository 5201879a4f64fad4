#include "tests/framework/config_stages.h"

namespace flow_test {

FLOW_REGISTER_STAGE(Count);
FLOW_REGISTER_STAGE(Scale);
FLOW_REGISTER_STAGE(Shift);
FLOW_REGISTER_STAGE(Sum);
FLOW_REGISTER_STAGE(Loop);
FLOW_REGISTER_STAGE(Spell);
FLOW_REGISTER_SERVICE(Store);
FLOW_REGISTER_SERVICE(Cache);
FLOW_REGISTER_SERVICE(Link);
FLOW_REGISTER_STAGE(Lookup);

namespace {

[[maybe_unused]] const bool geometry_registered = [] {
  flow::ValueInfo info;
  info.name = "Geometry";
  info.doc = "A made-up model.";
  info.options.make = [] { return std::make_shared<GeometryOptions>(); };
  flow::add_option(info.options, "layers", &GeometryOptions::layers, "how many");
  info.load = load_geometry;
  flow::Registry::instance().add(std::move(info));
  return true;
}();

}  // namespace

}  // namespace flow_test
