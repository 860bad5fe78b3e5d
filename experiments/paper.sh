#!/usr/bin/env bash
# The whole published study, top to bottom. Running it again goes on where it stopped; no call is paid twice.
#
#   bash experiments/paper.sh --dry-run    what it would ask: calls, tokens, and price where prices are filled in
#   bash experiments/paper.sh              needs OPENROUTER_API_KEY
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
gatewise=$here/../.venv/bin/gatewise
[ -x "$gatewise" ] || gatewise=gatewise

"$gatewise" fetch hotpotqa
"$gatewise" fetch musique
"$gatewise" run "$here/paper.toml" "$@"
