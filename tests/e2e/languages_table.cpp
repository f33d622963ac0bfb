// languages_table: small programs in every language that a shipped profile runs.
#include "tests/e2e/languages_table.h"

namespace sbx::test {
namespace {

const std::vector<std::string_view> kArgs{"a b", "--x", "*"};
constexpr std::string_view kPrints = "hello|a b|--x|*|a line\n";

const std::vector<LanguagePrograms> kTable{
    {.profile = "python",
     .file = "prog.py",
     .memory = "100M",
     .hello = "print('hello')",
     .everything = R"(import sys
line = sys.stdin.readline().strip()
print('|'.join(['hello'] + sys.argv[1:] + [line]))
open('made.txt', 'w').write(line)
sys.exit(3))",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "raise ValueError('boom')",
     .fails_says = "boom",
     .broken = "",
     .forever = "while True: pass",
     .hog = "a = []\nwhile True: a.append(b'x' * 1000000)"},
    {.profile = "node",
     .file = "prog.js",
     .memory = "300M",
     .hello = "console.log('hello')",
     .everything = R"(const fs = require('fs');
const line = fs.readFileSync(0, 'utf8').trim();
console.log(['hello', ...process.argv.slice(2), line].join('|'));
fs.writeFileSync('made.txt', line);
process.exitCode = 3;)",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "throw new Error('boom')",
     .fails_says = "boom",
     .broken = "",
     .forever = "for (;;) {}",
     .hog = "const a = []; for (;;) a.push(Buffer.alloc(1000000, 1));"},
    {.profile = "bash",
     .file = "prog.sh",
     .memory = "64M",
     .hello = "echo hello",
     .everything = R"(read -r line
printf 'hello'; printf '|%s' "$@" "$line"; echo
printf %s "$line" > made.txt
exit 3)",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "set -u; echo $boom",
     .fails_says = "boom",
     .broken = "",
     .forever = "while :; do :; done",
     .hog = "s=xxxxxxxxxxxxxxxx; while s=$s$s; do :; done; exit 1"},
    {.profile = "perl",
     .file = "prog.pl",
     .memory = "64M",
     .hello = "print \"hello\\n\";",
     .everything = R"(my $line = <STDIN>; chomp $line;
print join('|', 'hello', @ARGV, $line), "\n";
open my $f, '>', 'made.txt' or die; print $f $line; close $f;
exit 3;)",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "die 'boom'",
     .fails_says = "boom",
     .broken = "",
     .forever = "1 while 1",
     .hog = "my @a; push @a, 'x' x 1000000 while 1"},
    {.profile = "ruby",
     .file = "prog.rb",
     .memory = "100M",
     .hello = "puts 'hello'",
     .everything = R"(line = STDIN.gets.chomp
puts (['hello'] + ARGV + [line]).join('|')
File.write('made.txt', line)
exit 3)",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "raise 'boom'",
     .fails_says = "boom",
     .broken = "",
     .forever = "loop {}",
     .hog = "a = []\nloop { a << 'x' * 1000000 }"},
    {.profile = "php",
     .file = "prog.php",
     .memory = "100M",
     .hello = "<?php echo \"hello\\n\";",
     .everything = R"(<?php
$line = trim(fgets(STDIN));
echo implode('|', array_merge(['hello'], array_slice($argv, 1), [$line])), "\n";
file_put_contents('made.txt', $line);
exit(3);)",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "<?php throw new Exception('boom');",
     .fails_says = "boom",
     .broken = "",
     .forever = "<?php while (true) {}",
     .hog = "<?php $a = []; while (true) $a[] = str_repeat('x', 1000000);"},
    {.profile = "lua",
     .file = "prog.lua",
     .memory = "64M",
     .hello = "print('hello')",
     .everything = R"(local line = io.read()
print('hello|' .. table.concat(arg, '|') .. '|' .. line)
local f = io.open('made.txt', 'w'); f:write(line); f:close()
os.exit(3))",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "error('boom')",
     .fails_says = "boom",
     .broken = "",
     .forever = "while true do end",
     .hog = "local t = {} while true do t[#t + 1] = ('x'):rep(1000000) .. #t end"},
    {.profile = "r",
     .file = "prog.R",
     .memory = "300M",
     .hello = "cat('hello\\n')",
     .everything = R"(line <- readLines(file('stdin'), n = 1)
cat(paste(c('hello', commandArgs(TRUE), line), collapse = '|'), '\n', sep = '')
cat(line, file = 'made.txt')
quit(status = 3))",
     .args = {"a b", "-x", "*"},  // R itself takes words such as --slave
     .everything_prints = "hello|a b|-x|*|a line\n",
     .fails = "stop('boom')",
     .fails_says = "boom",
     .broken = "",
     .forever = "repeat {}",
     .hog = "x <- list(); repeat x[[length(x) + 1]] <- numeric(1e6) + 1"},
    {.profile = "tcl",
     .file = "prog.tcl",
     .memory = "64M",
     .hello = "puts hello",
     .everything = R"(set line [gets stdin]
puts [join [concat [list hello] $argv [list $line]] |]
set f [open made.txt w]; puts -nonewline $f $line; close $f
exit 3)",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "error boom",
     .fails_says = "boom",
     .broken = "",
     .forever = "while 1 {}",
     .hog = "set l {}; while 1 {lappend l [string repeat x 1000000][llength $l]}"},
    {.profile = "awk",
     .file = "prog.awk",
     .memory = "64M",
     .hello = "BEGIN { print \"hello\" }",
     .everything = R"(BEGIN {
  getline line < "-"
  all = "hello"
  for (i = 1; i < ARGC; i++) all = all "|" ARGV[i]
  print all "|" line
  printf "%s", line > "made.txt"
  exit 3
})",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "BEGIN { printf \"%d %d\\n\", 1 }",
     .fails_says = "not enough arg",
     .broken = "",
     .forever = "BEGIN { while (1) {} }",
     .hog = "BEGIN { s = \"xxxxxxxxxxxxxxxx\"; while (1) s = s s }"},
    {.profile = "sqlite",
     .file = "prog.sql",
     .memory = "64M",
     .hello = "select 'hello';",
     .everything = R"(create table t(line);
.import /dev/stdin t
select 'hello|' || line from t;
.output made.txt
select line from t;
.output stdout)",
     .args = {"select 'a b'", ".exit 3"},
     .everything_prints = "hello|a line\na b\n",
     .fails = "select * from boom; select 'not reached';",
     .fails_says = "boom",
     .broken = "",
     .forever = "with recursive c(i) as (values(1) union all select i + 1 from c) "
                "select count(*) from c;",
     .hog = "create table t(x); with recursive c(i) as (values(1) union all select i + 1 from c) "
            "insert into t select randomblob(1000000) from c;"},
    {.profile = "c",
     .file = "prog.c",
     .memory = "100M",
     .hello = "#include <stdio.h>\nint main(void) { puts(\"hello\"); }",
     .everything = R"(#include <math.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  char line[100];
  if (!fgets(line, sizeof line, stdin)) return 1;
  line[strcspn(line, "\n")] = 0;
  printf("hello");
  for (int i = 1; i < argc; i++) printf("|%s", argv[i]);
  printf("|%s\n", line);
  FILE* f = fopen("made.txt", "w");
  fputs(line, f);
  fclose(f);
  return (int)sqrt(argc + 5.0);
})",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "#include <stdio.h>\n#include <stdlib.h>\n"
              "int main(void) { fputs(\"boom\", stderr); abort(); }",
     .fails_says = "boom",
     .broken = "int main(void) { return boom; }",
     .forever = "int main(void) { for (;;) {} }",
     .hog = "#include <stdlib.h>\n#include <string.h>\nint main(void) { for (;;) { char* p = "
            "malloc(1000000); if (!p) return 9; memset(p, 1, 1000000); "
            "__asm__ volatile(\"\" : : \"r\"(p) : \"memory\"); } }"},
    {.profile = "cpp",
     .file = "prog.cpp",
     .memory = "400M",
     .hello = "#include <iostream>\nint main() { std::cout << \"hello\\n\"; }",
     .everything = R"(#include <fstream>
#include <iostream>
#include <string>
int main(int argc, char** argv) {
  std::string line;
  std::getline(std::cin, line);
  std::cout << "hello";
  for (int i = 1; i < argc; i++) std::cout << '|' << argv[i];
  std::cout << '|' << line << '\n';
  std::ofstream("made.txt") << line;
  return 3;
})",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "#include <stdexcept>\nint main() { throw std::runtime_error(\"boom\"); }",
     .fails_says = "boom",
     .broken = "int main() { return boom; }",
     .forever = "int main() { for (volatile int i = 0;; i = 1) {} }",
     .hog = "#include <string>\n#include <vector>\nint main() { std::vector<std::string> a; "
            "for (;;) a.emplace_back(1000000, 'x'); }"},
    {.profile = "rust",
     .file = "prog.rs",
     .memory = "500M",
     .hello = "fn main() { println!(\"hello\"); }",
     .everything = R"(use std::io::BufRead;
fn main() {
    let line = std::io::stdin().lock().lines().next().unwrap().unwrap();
    let mut all = vec!["hello".to_string()];
    all.extend(std::env::args().skip(1));
    all.push(line.clone());
    println!("{}", all.join("|"));
    std::fs::write("made.txt", line).unwrap();
    std::process::exit(3);
})",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "fn main() { panic!(\"boom\"); }",
     .fails_says = "boom",
     .broken = "fn main() { let x: i32 = boom; }",
     .forever = "fn main() { loop {} }",
     .hog = "fn main() { let mut a = Vec::new(); loop { a.push(vec![1u8; 1000000]); } }"},
    {.profile = "go",
     .file = "prog.go",
     .memory = "600M",
     .hello = "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }",
     .everything = R"(package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

func main() {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	line = strings.TrimSpace(line)
	all := append([]string{"hello"}, os.Args[1:]...)
	fmt.Println(strings.Join(append(all, line), "|"))
	os.WriteFile("made.txt", []byte(line), 0o644)
	os.Exit(3)
})",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "package main\nfunc main() { panic(\"boom\") }",
     .fails_says = "boom",
     .broken = "package main\nfunc main() { boom() }",
     .forever = "package main\nfunc main() { for {} }",
     .hog = "package main\nvar a [][]byte\nfunc main() { for { b := make([]byte, 1000000); "
            "for i := range b { b[i] = 1 }; a = append(a, b) } }"},
    {.profile = "java",
     .file = "prog.java",
     .memory = "400M",
     .hello = "public class Greets { public static void main(String[] a) { "
              "System.out.println(\"hello\"); } }",
     .everything = R"(package com.example;
import java.nio.file.*;
import java.util.*;
class Helper { static String line() { return new Scanner(System.in).nextLine(); } }
public class Everything {
  public static void main(String[] args) throws Exception {
    String line = Helper.line();
    List<String> all = new ArrayList<>(List.of("hello"));
    all.addAll(Arrays.asList(args));
    all.add(line);
    System.out.println(String.join("|", all));
    Files.writeString(Path.of("made.txt"), line);
    System.exit(3);
  }
})",
     .args = kArgs,
     .everything_prints = kPrints,
     .fails = "class F { public static void main(String[] a) { throw new "
              "IllegalStateException(\"boom\"); } }",
     .fails_says = "boom",
     .broken = "class F { public static void main(String[] a) { boom(); } }",
     .forever = "class F { public static void main(String[] a) { for (;;) {} } }",
     .hog = "import java.util.*; class F { public static void main(String[] x) { List<byte[]> a = "
            "new ArrayList<>(); for (;;) a.add(new byte[1000000]); } }"},
};

}  // namespace

std::span<const LanguagePrograms> language_programs() {
  return kTable;
}

}  // namespace sbx::test
