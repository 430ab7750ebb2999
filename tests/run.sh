#!/usr/bin/env bash
# Sets up and passes the whole test suite on a Debian or Ubuntu machine, as root.
#   bash tests/run.sh                 everything: lint, types, imports, unit, contract, end to end
#   bash tests/run.sh tests/unit -q   the same checks, then pytest with these arguments
set -euo pipefail
cd "$(dirname "$0")/.."

needed=()
command -v dockerd >/dev/null || [ -n "${RUNNER_TEST_DOCKER_SOCKET:-}" ] || needed+=(docker.io)
command -v docker >/dev/null || needed+=(docker.io)
command -v iptables >/dev/null || needed+=(iptables)
command -v debootstrap >/dev/null || needed+=(debootstrap)
[ -x /usr/sbin/sshd ] || needed+=(openssh-server)
if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  if grep -q '^ID=debian' /etc/os-release; then
    needed+=(chromium chromium-driver)
  else  # Ubuntu's package is a snap: selenium fetches a browser, which needs these
    needed+=(libnss3 libgbm1)
  fi
fi
command -v ssh-keygen >/dev/null || needed+=(openssh-client)
python3 -c 'import ensurepip, venv' 2>/dev/null || needed+=(python3-venv)
if [ ${#needed[@]} -gt 0 ]; then
  echo "== installing ${needed[*]}" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" >&2
fi

if ! command -v docker >/dev/null; then  # a package of its own in newer releases
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker-cli >&2
fi

if [ ! -x .venv/bin/python ]; then
  python3 -m venv .venv
fi
.venv/bin/python -m pip install -q -e '.[laptop,host,test]'

echo "== ruff" >&2
.venv/bin/ruff check .
.venv/bin/ruff format --check .
echo "== mypy" >&2
.venv/bin/mypy
echo "== import-linter" >&2
.venv/bin/lint-imports
echo "== pytest" >&2
exec .venv/bin/python -m pytest --durations=15 "${@:-tests}"
