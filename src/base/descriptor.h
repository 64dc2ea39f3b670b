// A file descriptor that is closed at the end of its scope, and what is done with whole files.
// Functions give 0, or the errno of what failed. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace noetl {

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  // The caller closes it.
  int Take() { return std::exchange(number_, -1); }

 private:
  int number_;
};

int WriteAll(const Descriptor& file, std::string_view content);
// So that a file is there under its name after a crash.
int SyncDirectory(const std::string& path);

}  // namespace noetl
