#!/bin/sh
# Runs every fuzz target for some seconds each, with coverage feedback, on the stable toolchain:
# the flags are those that cargo-fuzz gives without a sanitizer.
#
#     fuzz/run.sh [SECONDS]
#
# What crashes a target is left in build/fuzz; give its file to the target to repeat the crash.
set -eu
cd "$(dirname "$0")"
seconds=${1:-60}
target=$(rustc -vV | sed -n 's/^host: //p')
out=../build/fuzz

RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module \
-Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --locked --release --target "$target" --target-dir "$out"

for source in fuzz_targets/*.rs; do
    name=$(basename "$source" .rs)
    mkdir -p "$out/corpus/$name"
    echo "fuzzing $name for $seconds s"
    if ! "$out/$target/release/$name" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=2048 -artifact_prefix="$out/$name-" -print_final_stats=1 \
        "$out/corpus/$name" "seeds/$name" >"$out/$name.log" 2>&1; then
        tail -n 20 "$out/$name.log"
        echo "$name failed: $out/$name.log, $out/$name-*" >&2
        exit 1
    fi
    grep -E '^(#.*DONE|stat::number_of_executed)' "$out/$name.log"
done
