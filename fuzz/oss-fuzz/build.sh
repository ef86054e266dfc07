#!/bin/bash -eu
# Builds all targets of fuzz/ by cargo fuzz, each with its seeds.
cd "$SRC/opaque-id"
# Not the pinned compiler: sanitizers need a nightly one.
export RUSTUP_TOOLCHAIN="${RUSTUP_TOOLCHAIN:-nightly}"
cargo fuzz build -O
for source in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$source" .rs)
    cp "fuzz/target/x86_64-unknown-linux-gnu/release/$target" "$OUT/"
    if [ -d "fuzz/seeds/$target" ]; then
        zip --quiet --junk-paths "$OUT/${target}_seed_corpus.zip" "fuzz/seeds/$target"/*
    fi
done
