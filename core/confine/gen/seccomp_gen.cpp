// Seccomp generator: writes the filters as a header. Run by the build: seccomp_gen FILE.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "core/confine/gen/seccomp_rules.h"

namespace {

using sbx::confine::gen::build_filter;
using sbx::confine::gen::Variant;

bool write_filter(std::ostream& out, const char* name, Variant variant) {
  std::string error;
  const std::vector<sock_filter> code = build_filter(variant, error);
  if (code.empty()) {
    std::cerr << "seccomp_gen: " << name << ": " << error << "\n";
    return false;
  }
  out << "inline constexpr std::array<sock_filter, " << code.size() << "> " << name << "{{\n";
  for (const sock_filter& i : code) {
    out << "    {" << i.code << ", " << unsigned{i.jt} << ", " << unsigned{i.jf} << ", " << i.k
        << "u},\n";
  }
  out << "}};\n";
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: seccomp_gen FILE\n";
    return 2;
  }
  std::ofstream out(argv[1]);
  out << "// Seccomp filters: made by seccomp_gen at build time.\n#pragma once\n\n"
         "#include <linux/filter.h>\n\n#include <array>\n\nnamespace sbx::confine {\n\n";
  if (!write_filter(out, "kDefaultFilter", Variant::kDefault)) return 1;
  if (!write_filter(out, "kNestingFilter", Variant::kNesting)) return 1;
  if (!write_filter(out, "kFilesFilter", Variant::kFiles)) return 1;
  if (!write_filter(out, "kImageFilter", Variant::kImage)) return 1;
  out << "\n}  // namespace sbx::confine\n";
  return out.flush() ? 0 : 1;
}
