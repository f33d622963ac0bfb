// tar_builder: tar files as tests want them, hostile ones included; nothing is checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sbx::image::test {

/// What a header says.
struct TarHeader {
  std::string name;
  char type = '0';
  std::uint32_t mode = 0644;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
  std::int64_t mtime = 1'000'000'000;
  std::string link = {};
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
};

class TarBuilder {
 public:
  TarBuilder& dir(const std::string& name, std::uint32_t mode = 0755);
  TarBuilder& file(const std::string& name,
                   std::string_view content = "x",
                   std::uint32_t mode = 0644);
  TarBuilder& symlink(const std::string& name, const std::string& target);
  TarBuilder& hard_link(const std::string& name, const std::string& target);
  /// Any header; names above 100 bytes and big numbers get a pax header in front. `size` is what
  /// the header says of the content.
  TarBuilder& add(const TarHeader& header, std::string_view content = {});
  TarBuilder& add_sized(const TarHeader& header, std::string_view content, std::uint64_t size);
  /// A pax extended header for the next member.
  TarBuilder& pax(const std::vector<std::pair<std::string, std::string>>& records, char type = 'x');
  /// A GNU long name ('L') or link ('K') for the next member.
  TarBuilder& gnu_long(char type, const std::string& name);
  TarBuilder& raw(std::string_view bytes);
  /// All of it with the end mark.
  std::string end() const;
  /// Without.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// "LENGTH key=value\n".
std::string pax_record(const std::string& key, const std::string& value);

}  // namespace sbx::image::test
