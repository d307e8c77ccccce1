#!/bin/sh
# Names with spaces and quotes, which every step has to hand on unharmed.
set -e
cd "$(dirname "$0")"
mkdir -p "object files"
cc -O0 -c "the kernel.c" -o "object files/the kernel.o"
cc -O0 -c "it's main.c" -o "object files/it's main.o"
cc -o "my prog" "object files/it's main.o" "object files/the kernel.o"
