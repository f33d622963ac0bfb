// pty: a terminal of a given size whose keyboard and screen the test holds.
#pragma once

#include <termios.h>

#include <string>
#include <string_view>

namespace sbx::test {

class Pty {
 public:
  Pty(int rows, int cols);
  Pty(const Pty&) = delete;
  Pty& operator=(const Pty&) = delete;
  ~Pty();

  int master() const { return master_; }
  int slave() const { return slave_; }
  void resize(int rows, int cols) const;
  void type(std::string_view keys) const;
  /// Reads the screen until it holds `text`; false after `seconds` (scaled).
  bool wait_for(std::string_view text, double seconds);
  /// Reads the screen for `seconds` (not scaled).
  void watch(double seconds);
  const std::string& screen() const { return screen_; }
  void clear() { screen_.clear(); }
  termios attributes() const;

 private:
  int master_ = -1;
  int slave_ = -1;
  std::string screen_;
};

/// True when both describe the same terminal mode.
bool same_mode(const termios& a, const termios& b);

}  // namespace sbx::test
