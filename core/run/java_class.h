// Java class: which class of a Java source is to be started, and what its file has to be called.
//
// A lexical look, no parser: what it cannot make out, the compiler will complain about.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sbx::run {

struct JavaClass {
  std::string package;  ///< "com.example"; empty for none
  std::string file;     ///< the public top-level type, else the first: its file is <file>.java
  std::string main;     ///< the top-level type that has main(...), else `file`

  /// "com.example.Main": what java(1) is given.
  std::string qualified() const { return package.empty() ? main : package + '.' + main; }
};

/// nullopt when there is no top-level class, interface, enum or record. Linear in `source`.
std::optional<JavaClass> java_class_of(std::string_view source);

}  // namespace sbx::run
