#!/bin/sh
# Creates .venv next to the Makefile and installs quorumd with everything its tests need into it.
# Prints what the machine lacks; the output of the tools goes to build/setup.log.
set -eu
cd "$(dirname "$0")/.."
mkdir -p build
log=build/setup.log

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# Builds of the same Python differ in speed by half (profile-guided or not, shared library or not), so the fastest of
# several is used. PYTHON=... selects one.
milliseconds() {
    "$1" -c '
import sys, time
if sys.version_info < (3, 11): sys.exit(1)
def work():
    seen = {}
    for i in range(40000): seen[i & 63] = (i, [j for j in (i, i + 1)])
best = 9.0
for _ in range(5):
    began = time.process_time(); work(); best = min(best, time.process_time() - began)
import ensurepip
print(round(best * 100000))' 2>/dev/null
}

python= fastest=
for candidate in ${PYTHON:-python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11}; do
    taken=$(milliseconds "$candidate") || continue
    # The first one found is the user's default: another must be clearly faster.
    if [ -z "$fastest" ] || [ "$taken" -lt $((fastest * 85 / 100)) ]; then
        python=$candidate fastest=$taken
    fi
done
if [ -z "$python" ]; then
    for candidate in ${PYTHON:-python3}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python=$candidate; fi
    done
fi
[ -n "$python" ] || fail "no Python 3.11 or later found; install one, or name it: make setup PYTHON=/path/to/python3"

if [ ! -x .venv/bin/python ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "setup: creating .venv with $("$python" --version) ($(command -v "$python"))"
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
if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev,pipeline,regex,security]' >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "pip could not install the dependencies (last lines above, all in $log); is a package index reachable?"
fi
missing=$(.venv/bin/python -c '
import os
from quorumd.pipeline.spark.java import why_no_spark
print(why_no_spark(os.environ) or "")')
if [ -n "$missing" ]; then
    echo "setup: $missing. Everything except the data pipeline on Spark works without it."
fi
touch .venv/.ready
echo "setup: ready"
