#!/bin/sh
# Links the shared library from the static one: link-shared.sh ARCHIVE FOLDER
#
# rustc writes a version script of its own for every cdylib, and a second one would not be
# obeyed; so the crate is a static library, and the linker gives it soname and symbol versions
# here, by heddle.map. Leaves FOLDER/libheddle.so.0.1.0 and the two names that point to it.
set -eu
archive=$1 folder=$2
here=$(dirname "$0")
version=$(sed -n 's/^#define HEDDLE_VERSION_[A-Z]* *\([0-9]*\)$/\1/p' "$here/include/heddle.h" |
	paste -s -d .)

mkdir -p "$folder"
"${CC:-cc}" -shared -o "$folder/libheddle.so.$version" \
	-Wl,-soname,libheddle.so.0 -Wl,--version-script="$here/heddle.map" \
	-Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,--gc-sections -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined \
	-lgcc_s -lpthread -lm -ldl -lc
ln -sf "libheddle.so.$version" "$folder/libheddle.so.0"
ln -sf libheddle.so.0 "$folder/libheddle.so"
