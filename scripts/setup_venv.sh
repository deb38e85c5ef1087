#!/bin/sh
# Makes .venv beside the Makefile and installs quorumd with everything its tests need into it.
# Says in words what a bare machine is missing; the noise of the tools goes to build/setup.log.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
log=build/setup.log

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

python=
for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "no Python 3.11 or later found; install one, or name it: make setup PYTHON=/path/to/python3"

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup: creating .venv with $("$python" --version)"
    if ! "$python" -m venv --clear .venv >"$log" 2>&1; then
        rm -rf .venv
        if grep -q ensurepip "$log"; then
            package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
            fail "this Python has no venv module; on Debian or Ubuntu: apt install $package, then run make again"
        fi
        cat "$log" >&2
        fail "could not create .venv (output above)"
    fi
fi

echo "setup: installing quorumd and its development tools into .venv (a minute or two the first time)"
if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "pip could not install the dependencies (last lines above, all in $log); is a package index reachable?"
fi
touch .venv/.ready
echo "setup: ready"
