#!/bin/sh
# Makes the package for npm, whose name has no scope, in a folder: ./pack.sh FOLDER
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")"
deno pack --quiet --allow-dirty --no-source-maps --output "$folder/scoped.tgz"
tar --extract --gzip --file "$folder/scoped.tgz" --directory "$folder"
rm "$folder/scoped.tgz"
sed -i 's|"@opaque-id/opaque-id"|"opaque-id"|' "$folder/package/package.json"
tar --create --gzip --file "$folder/opaque-id.tgz" --directory "$folder" package
