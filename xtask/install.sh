#!/bin/sh
# Names or installs Debian's packages that are missing, with which a group of tasks builds or runs.
#
#   xtask/install.sh need GROUP       fails if packages are missing
#   xtask/install.sh install GROUP    installs them, which takes root
set -eu

missing=
# A package, and commands of which one succeeds if it is there.
package() {
    name=$1
    shift
    for command; do
        if $command >/dev/null 2>&1; then return; fi
    done
    missing="$missing $name"
}

linked() {
    package libpq-dev "pkg-config --exists libpq"
    package libmariadb-dev "pkg-config --exists mysqlclient" "pkg-config --exists libmariadb"
}

case $2 in
linked) linked ;;
tests)
    linked
    package age "age --version"
    package curl "curl --version"
    package chromium "chromium --version"
    package chromium-driver "chromedriver --version"
    package nodejs "node --version"
    package python3-venv "python3 -m ensurepip --version"
    ;;
benchmarks) package valgrind "valgrind --version" ;;
targets)
    package qemu-user "qemu-aarch64 --version"
    for cpu in aarch64:arm64 s390x:s390x; do
        package "gcc-${cpu%:*}-linux-gnu" "${cpu%:*}-linux-gnu-gcc --version"
        package "libc6-dev-${cpu#*:}-cross" "test -e /usr/${cpu%:*}-linux-gnu/lib/libc.so"
    done
    ;;
dist) package musl-tools "musl-gcc -dumpversion" ;;
esac

if [ -z "$missing" ]; then
    exit 0
elif [ "$1" = install ]; then
    apt-get update
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends pkg-config $missing
else
    echo "expected Debian's$missing: install them by \`xtask/install.sh install $2\`, or as your system does" >&2
    exit 1
fi
