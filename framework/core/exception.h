// Exceptions as errors.
#pragma once

#include <exception>
#include <new>
#include <system_error>

#include "framework/core/status.h"

namespace flow {

/// The exception that is being handled, as an error. Call it in a catch block.
inline Status exception_status() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status::error("out of memory");
  } catch (const std::system_error& e) {
    // What the start of a thread throws.
    if (e.code() == std::errc::resource_unavailable_try_again) {
      return Status::error(
          "the system refuses another thread; raise the limit of threads or memory, or ask for fewer in "
          "'runtime'");
    }
    return errorf("exception: {}", e.what());
  } catch (const std::exception& e) {
    return errorf("exception: {}", e.what());
  } catch (...) {
    return Status::error("exception of an unknown type");
  }
}

}  // namespace flow
