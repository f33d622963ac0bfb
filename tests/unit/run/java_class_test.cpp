// java_class_test: which class of a Java source is started, and how its file is called.
#include "core/run/java_class.h"

#include <initializer_list>
#include <string>

#include <doctest/doctest.h>

namespace sbx::run {

TEST_CASE("java class: the file is the public type's, the start is the one with main") {
  struct Row {
    const char* source;
    const char* file;
    const char* qualified;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"class A { }", "A", "A"},
           {"class A { } class B { }", "A", "A"},
           {"class A { } public class B { }", "B", "B"},
           {"class A { } class B { static void main(String[] a) { } }", "A", "B"},
           {"public class A { } class B { public static void main(String... a) { } }", "A", "B"},
           {"package x.y . z;\nclass A { }", "A", "x.y.z.A"},
           {"import java.util.*; public final class A extends B implements C<D> { }", "A", "A"},
           {"// class No\n/* public class No { */ enum A { X }", "A", "A"},
           {"@Note(text = \"class No {\", type = No.class) record A(int x) { }", "A", "A"},
           {"interface A { class Inner { static void main() {} } } class B { void main() {} }",
            "A",
            "B"},
           {"class A { String s = \"\"\"\n } class No { \\\"\"\" \"\"\"; char c = '\"'; } "
            "public class B { }",
            "B",
            "B"},
           {"class A { int main; void f() { main(); } }", "A", "A"},
           {"public interface P { } public class Ä_$1 { public static void main (String[] a) {} }",
            "P",
            "Ä_$1"},
           {"class A", "A", "A"},
           {"} } class A { }", "A", "A"},
       }) {
    CAPTURE(row.source);
    const auto found = java_class_of(row.source);
    REQUIRE(found.has_value());
    CHECK(found->file == row.file);
    CHECK(found->qualified() == row.qualified);
  }
}

TEST_CASE("java class: a source without a type has none") {
  for (const char* source : {"",
                             "class",
                             "class {",
                             "package",
                             "/* class A",
                             "\"class A {}",
                             "public static void main() { class A { } }",
                             "class class {"}) {
    CAPTURE(source);
    CHECK_FALSE(java_class_of(source).has_value());
  }
}

}  // namespace sbx::run
