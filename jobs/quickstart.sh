#!/usr/bin/env bash
# From a bare Debian or Ubuntu machine (as root) to a report, with real parts:
# engine, images, a tiny model, vLLM, AIPerf. Steps that are already done are not done again.
#
#   RUNNER_HOSTS   inventory to use (default: hosts.yaml)      RUNNER_STORE   store (artifacts)
#   RUNNER_LOCK    digests of images (images/lock.yaml)
#   RUNNER_MODELS  where the tiny model goes (/var/lib/runner/models)
#   RUNNER_WHEELS, RUNNER_CA_BUNDLE, RUNNER_PIP_EXTRA_INDEX   reach the image builds; a folder in
#                  PIP_FIND_LINKS and the file in SSL_CERT_FILE are taken where these are not set
set -euo pipefail
cd "$(dirname "$0")/.."
say() { printf '\n== %s\n' "$*" >&2; }
models=${RUNNER_MODELS:-/var/lib/runner/models}

install() {
  say "installing $*"
  [ "$(id -u)" = 0 ] || { echo "needs root to install: $*" >&2; exit 4; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}

engine_answers() { command -v docker >/dev/null && docker version >/dev/null 2>&1; }

if ! engine_answers; then
  missing=()
  command -v dockerd >/dev/null || missing+=(docker.io)
  command -v iptables >/dev/null || missing+=(iptables)
  [ ${#missing[@]} -eq 0 ] || install "${missing[@]}"
  command -v docker >/dev/null || install docker-cli  # a package of its own in newer releases
  if ! engine_answers; then
    say "starting the container engine"
    if [ -d /run/systemd/system ]; then
      systemctl start docker
    else
      setsid nohup dockerd >/var/log/dockerd.log 2>&1 </dev/null &
    fi
    for _ in $(seq 60); do engine_answers && break; sleep 0.5; done
    engine_answers || { echo "the engine does not answer; see /var/log/dockerd.log" >&2; exit 4; }
  fi
fi

if ! python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  install python3 python3-venv
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "Python 3.11 or newer is needed, found $(python3 --version)" >&2; exit 4; }
fi
if [ ! -x .venv/bin/runner ] || [ pyproject.toml -nt .venv/.runner-installed ]; then
  say "installing runner into .venv"
  [ -x .venv/bin/python ] || python3 -m venv .venv
  .venv/bin/python -m pip install -q -e '.[laptop]'
  touch .venv/.runner-installed
fi
runner=.venv/bin/runner

build=(images build vllm-cpu aiperf supervisor --host local)
[ -z "${SSL_CERT_FILE:-}" ] || export RUNNER_CA_BUNDLE=${RUNNER_CA_BUNDLE:-$SSL_CERT_FILE}
[ ! -d "${PIP_FIND_LINKS:-}" ] || export RUNNER_WHEELS=${RUNNER_WHEELS:-$PIP_FIND_LINKS}
say "building images (a few minutes the first time)"
base=python:3.11-slim-bookworm
if ! docker image inspect $base >/dev/null 2>&1 && ! docker pull -q $base >&2; then
  say "the base image can't be pulled: making one with debootstrap"
  command -v debootstrap >/dev/null || install debootstrap
  build+=(--bootstrap-base)
fi
$runner "${build[@]}"

say "making the tiny model in $models/tiny"
$runner models tiny --host local --target "$models/tiny"

job=(jobs/quickstart.yaml --host local)
if [ "$models" != /var/lib/runner/models ]; then
  job+=(--set "model=$models/tiny" --set "servers.draft.speculative.model=$models/tiny")
fi
say "runner submit ${job[*]} --follow"
status=0
run=$($runner submit "${job[@]}" --follow) || status=$?
say "runner collect $run"
$runner collect "$run"
say "runner report $run"
$runner report "$run"
exit "$status"
