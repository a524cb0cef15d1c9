#!/bin/sh
# Do the lower bounds in pyproject.toml hold? Installs the oldest versions that they allow and runs the tests without servers.
#
#   scripts/lower_bounds.sh [PYTHON]      needs uv (pip install uv) and the package index; a few minutes
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT

uv venv --quiet --python "$python" "$env/venv"
# What is asked for directly as old as allowed; what those bring, as they ask for it themselves.
uv pip compile --quiet --python "$env/venv" --resolution lowest-direct --extra embedded --output-file "$env/lowest.txt" pyproject.toml
grep -E '^[a-z]' "$env/lowest.txt"
uv pip install --quiet --python "$env/venv" --requirement "$env/lowest.txt"
uv pip install --quiet --python "$env/venv" --no-deps --editable .
# The tools of the tests are no part of the question.
uv pip install --quiet --python "$env/venv" --constraint "$env/lowest.txt" pytest pytest-timeout pytest-xdist hypothesis jsonschema pyte trustme
SERVERS=$env/none "$env/venv/bin/python" -m pytest -q -n 2 tests/core tests/backends tests/tui tests/test_run.py \
    -p no:cacheprovider
