#!/usr/bin/env bash
# with_vllm.sh MODEL COMMAND...
#
# Starts a vLLM server for MODEL on this machine, waits until it is healthy, runs COMMAND with OPENAI_BASE_URL set to
# the server, and ends the server. The exit code is the command's. SIGTERM and SIGUSR1 are passed on to the command,
# which ends cleanly by them (refbench: exit code 75); the server stays until the command has ended.
#
#   VLLM_ARGS       further words for `vllm serve`, for example "--tensor-parallel-size 2"
#   VLLM_WAIT       seconds until it must be healthy (1800: weights are large, and a graph is compiled)
#   VLLM_LOG        where it writes (vllm.log)
set -euo pipefail
if [ $# -lt 2 ]; then
    echo "usage: with_vllm.sh MODEL COMMAND..." >&2
    exit 2
fi
model=$1
shift
log=${VLLM_LOG:-vllm.log}

# Several jobs may share a machine: a port that is free now.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port

command=""
signals=0
pass_on() {
    signals=$((signals + 1))
    if [ -n "$command" ]; then kill -s "$1" "$command" 2>/dev/null || true; fi
}
trap 'pass_on TERM' TERM
# Ctrl-C reaches the command by itself, unless it was sent to this script alone. A second one would end it at once.
trap 'pass_on USR1' USR1 INT

# A session of its own: a signal to this script's group, as by Ctrl-C, must not take the server away from calls in flight.
# shellcheck disable=SC2086
setsid vllm serve "$model" --host 127.0.0.1 --port "$port" ${VLLM_ARGS:-} > "$log" 2>&1 &
server=$!
end_server() {
    kill -s TERM -- "-$server" 2>/dev/null || kill -s TERM "$server" 2>/dev/null || true
    for _ in $(seq 100); do
        kill -0 "$server" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -s KILL -- "-$server" 2>/dev/null || true
}
trap end_server EXIT

waited=0
until curl --silent --fail --max-time 5 --noproxy '*' --output /dev/null "$url/health"; do
    if ! kill -0 "$server" 2>/dev/null; then
        echo "with_vllm.sh: the server has ended; the last of $log:" >&2
        tail -n 20 "$log" >&2
        exit 1
    fi
    if [ "$signals" -gt 0 ]; then exit 75; fi # asked to end before anything was begun
    if [ "$waited" -ge "${VLLM_WAIT:-1800}" ]; then
        echo "with_vllm.sh: the server is not healthy after $waited s; see $log" >&2
        exit 1
    fi
    sleep 1
    waited=$((waited + 1))
done
if [ "$signals" -gt 0 ]; then exit 75; fi

export OPENAI_BASE_URL=$url/v1
"$@" &
command=$!
# `wait` ends early at each signal that has a trap: what it said counts if none came meanwhile.
before=-1
while [ "$before" != "$signals" ]; do
    before=$signals
    code=0
    wait "$command" || code=$?
done
exit "$code"
