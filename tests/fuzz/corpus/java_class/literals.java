record P(int x) { }
class Q { String s = """
  class Z { "
  """; char c = '"'; static void main(String... a) { } }