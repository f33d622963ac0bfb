package a.b;
/* class X */ @A(b = "class Y {") public final class Main<T> { void f() { class L {} } public static void main(String[] a) {} }
enum E { A }
