// A shared library without FLOW_PLUGIN(), for tests.
extern "C" int nothing() {
  return 0;
}
