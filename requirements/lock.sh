#!/usr/bin/env bash
# Writes the locked requirements anew: versions and hashes for every supported Python, and no address.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() { uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url --upgrade --quiet "$@"; }
lock pyproject.toml requirements/build.in --output-file requirements/core.txt
lock pyproject.toml --extra fast --extra bm25 --extra embed --extra local --extra plots \
  requirements/build.in requirements/dev.in --output-file requirements/dev.txt
lock pyproject.toml --extra local --extra plots requirements/build.in -c requirements/dev.txt \
  --output-file requirements/demo.txt
