// Fuzz: sealed images; the key is known, so that what is found is not only a wrong tag.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/backend/vm/sealed.h"
#include "core/base/sys.h"

using namespace sbx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto in = sys::memfd_create("in");
  const auto out = sys::memfd_create("out");
  if (!in.ok() || !out.ok()) std::abort();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!sys::write_all(in.value().get(), bytes).ok()) std::abort();
  (void)::lseek(in.value().get(), 0, SEEK_SET);
  (void)vm::unseal(in.value().get(), out.value().get(), vm::SealKey{}, "fuzz");
  const auto written = sys::fstat(out.value().get());
  if (!written.ok() || static_cast<size_t>(written.value().st_size) > size) std::abort();
  return 0;
}
