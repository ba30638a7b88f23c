#!/bin/sh
# Links libheddle-user.so from the static library: link-shared.sh ARCHIVE FOLDER
#
# `names` is the only list of what the library takes over. Each NAME in it becomes
#   NAME            exported; jumps to the library's function heddle_user_NAME. With the word
#                   `full` behind it only for full threads: kernel threads go to __wrap_NAME
#   __wrap_NAME     what code inside the library gets when it calls NAME (the linker's --wrap):
#                   jumps to the next library's NAME, which is the C library's
# So no code in here can confuse the two: what the program calls is ours, and what we call, the
# runtime and Rust's std included, is the C library's. All other symbols are hidden.
#
# The jumps keep every register, so they fit functions with any arguments. The addresses are looked
# up when the library is loaded, one that is needed before by itself: see src/real.rs.
#
# For other machines than x86-64 there is no library: nothing is made, which is no error.
set -eu
case $(uname -m) in
x86_64) ;;
*) exit 0 ;;
esac
archive=$1 folder=$2
here=$(cd "$(dirname "$0")" && pwd)
list=$(sed 's/#.*//; /^ *$/d' "$here/names")
names=$(echo "$list" | awk '{ print $1 }')

mkdir -p "$folder"
work=$(mktemp -d "$folder/link.XXXXXX")
trap 'rm -rf "$work"' EXIT

{
	printf '{\n\tglobal:\n'
	printf '\t\t%s;\n' $names
	# For gdb, also where symbols are stripped.
	printf '\t\theddle_debugger;\n\t\theddle_user_debugger;\n'
	printf '\tlocal:\n\t\t*;\n};\n'
} >"$work/map"

printf -- '-Wl,--wrap=%s\n' $names __tls_get_addr >"$work/wraps"

{
	cat "$here/arch/x86_64.S" "$here/arch/x86_64_context.S"
	echo "$list" | awk '{ printf "TAKEN %s, %d, %s\n", $1, NR - 1, $2 == "" ? "all" : $2 }'
	printf '\t.section .rodata\n'
	for name in $names; do
		printf 'name_%s: .asciz "%s"\n' "$name" "$name"
	done
	printf '\t.section .data.rel.ro,"aw"\n\t.balign 8\nheddle_user_names:\n'
	printf '\t.quad name_%s\n' $names
	printf '\t.quad 0\nheddle_user_taken:\n'
	echo "$list" | awk '{ printf "\t.quad heddle_user_%s%s\n", $2 == "preceded" ? "before_" : "", $1 }'
	printf '\t.quad 0\nheddle_user_exported:\n'
	printf '\t.quad exported_%s\n' $names
	printf '\t.bss\n\t.balign 8\nheddle_user_real:\n\t.zero %d\n' \
		$((8 * $(echo "$names" | wc -l)))
	printf '\t.section .note.GNU-stack,"",@progbits\n'
} >"$work/names.S"

"${CC:-cc}" -c -o "$work/names.o" "$work/names.S"
"${CC:-cc}" -shared -o "$work/libheddle-user.so" "$work/names.o" \
	-Wl,-soname,libheddle-user.so -Wl,--version-script="$work/map" "@$work/wraps" \
	-Wl,--whole-archive "$archive" -Wl,--no-whole-archive \
	-Wl,--gc-sections -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,--no-undefined \
	-lgcc_s -lpthread -lm -ldl -lc
# __wrap___tls_get_addr is right for the library's own variables alone.
if readelf -rW "$work/libheddle-user.so" | grep 'DTPMOD64 .*[^ 0-9]' >&2; then
	echo "link-shared.sh: a thread-local variable of another library is used" >&2
	exit 1
fi
mv "$work/libheddle-user.so" "$folder/libheddle-user.so"
