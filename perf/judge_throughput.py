"""What judging costs: our whole path against the openai SDK's async client, same server, same bytes, one run.

    python perf/judge_throughput.py [--samples 140] [--latency 0.2] [--in-flight 128]

A server in a process of its own answers after a fixed latency. Each client is a process of its own; CPU is its
user and system time while it works, without start-up. Ours is `evaluate` on a MultiBanana dataset: pictures are
opened, checked and hashed, outputs stored, replies recorded in the ledger and tabled. The SDK's client reads
the files, encodes them and asks, and keeps the replies in memory. Needs the openai package for the comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from refbench.pictures import encode

SERVER = """
import asyncio, json, sys
latency = float(sys.argv[1])
text = "Reasoning: fine.\\n" + "\\n".join(f"{l}: 7." for l in ("Instruction Alignment", "Reference Consistency", "Background-Subject Match", "Physical Realism", "Visual Quality"))
body = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}], "usage": {"prompt_tokens": 9000, "completion_tokens": 90, "total_tokens": 9090}}).encode()
answer = b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            fields = {k.strip().lower(): v.strip() for k, v in (l.split(b":", 1) for l in head.split(b"\\r\\n")[1:] if b":" in l)}
            left = int(fields.get(b"content-length", 0))
            while left:
                left -= len(await reader.read(min(left, 1 << 20)))
            await asyncio.sleep(latency)
            writer.write(answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""

MEASURE = """
import json, resource, time
def used():
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime
def report(samples, cpu, wall):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"samples": samples, "cpu_ms": 1000 * cpu / samples, "per_second": samples / wall, "peak_mb": peak}))
"""

OURS = (
    MEASURE
    + """
import asyncio, sys
from pathlib import Path
from refbench.engine import RunOptions, evaluate_async
work, port, in_flight = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
import refbench.cli.printing, refbench.benchmarks.multibanana.benchmark, cv2
cpu, wall = used(), time.monotonic()
done = asyncio.run(evaluate_async(RunOptions(benchmark="multibanana", data=work / "data", models=[f"m=folder:{work}/out"], judges=[f"j=openai:gpt-4o?base_url=http://127.0.0.1:{port}/v1"], out=work / "run", concurrency=in_flight)))
report(done.progress.done, used() - cpu, time.monotonic() - wall)
"""
)

SDK = (
    MEASURE
    + """
import asyncio, base64, sys
from pathlib import Path
from openai import AsyncOpenAI
work, port, in_flight = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def url(path):
    return f"data:image/{'png' if path.suffix == '.png' else 'jpeg'};base64," + base64.b64encode(path.read_bytes()).decode()
async def main():
    client = AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="x", max_retries=2)
    gate = asyncio.Semaphore(in_flight)
    async def one(prompt):
        async with gate:
            number = prompt.name.split("_")[0]
            pictures = sorted(prompt.parent.glob(f"{number}_?.jpg")) + [work / "out" / prompt.parent.name / f"{number}_generated.png"]
            content = [{"type": "text", "text": "You rate pictures."}, *({"type": "image_url", "image_url": {"url": url(p)}} for p in pictures), {"type": "text", "text": prompt.read_text() + "Rate it. " * 300}]
            reply = await client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": content}], max_completion_tokens=8192)
            return reply.choices[0].message.content
    prompts = sorted((work / "data").glob("*/*_prompt.txt"))
    cpu, wall = used(), time.monotonic()
    replies = await asyncio.gather(*(one(p) for p in prompts))
    report(len(replies), used() - cpu, time.monotonic() - wall)
asyncio.run(main())
"""
)


def write_data(work: Path, samples: int) -> float:
    """Sets of 2 to 8 references and an output; returns the mean megabytes of a set."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[0:1024, 0:1024]

    def photo(noise: int) -> np.ndarray:
        waves = [127 + 100 * np.sin(x / rng.uniform(20, 90) + y / rng.uniform(20, 90)) for _ in range(3)]
        return np.clip(np.stack(waves, 2) + rng.normal(0, noise, (1024, 1024, 3)), 0, 255).astype(np.uint8)

    (work / "pool").mkdir()
    pool = [work / f"pool/{i}" for i in range(16)]
    for i, path in enumerate(pool):
        path.write_bytes(encode(photo(9), "jpeg", quality=85) if i < 12 else encode(photo(1)))
    references, outputs = pool[:12], pool[12:]
    total = 0
    for n in range(samples):
        count = 2 + n % 7
        task = "add" if count == 2 else f"{count}_object"
        (work / "data" / task).mkdir(parents=True, exist_ok=True)
        (work / "out" / task).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            (work / f"data/{task}/{n:03d}_{i}.jpg").hardlink_to(references[(n + i) % 12])
            total += references[(n + i) % 12].stat().st_size
        (work / f"data/{task}/{n:03d}_prompt.txt").write_text(f"Put image 1 beside image 2, number {n}.")
        (work / f"out/{task}/{n:03d}_generated.png").hardlink_to(outputs[n % 4])
        total += outputs[n % 4].stat().st_size
    return total / samples / 1e6


def client(code: str, work: Path, port: str, in_flight: int) -> dict[str, float]:
    ended = subprocess.run(
        [sys.executable, "-c", code, str(work), port, str(in_flight)], capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(ended.stderr[-2000:])
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=840)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--in-flight", type=int, default=128)
    given = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(given.latency)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            size = write_data(work, given.samples)
            print(
                f"{given.samples} samples, {size:.2f} MB of pictures each, {given.in_flight} in flight, {given.latency:g} s latency"
            )
            print(f"bound by latency: {given.in_flight / given.latency:.0f} samples/s")
            theirs = client(SDK, work, port, given.in_flight)
            ours = client(OURS, work, port, given.in_flight)
    finally:
        server.terminate()
        server.wait()
    for name, found in (("openai SDK", theirs), ("refbench", ours)):
        print(
            f"{name:10s} {found['cpu_ms']:6.2f} ms CPU a sample, {found['per_second']:5.0f} samples/s, {found['peak_mb']:5.0f} MB"
        )
    print(f"CPU ratio {ours['cpu_ms'] / theirs['cpu_ms']:.2f} (target 0.25)")


if __name__ == "__main__":
    main()
