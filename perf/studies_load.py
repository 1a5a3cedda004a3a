"""Many raters at once: how long a mark takes until it is acknowledged, which is after it is on disk.

    python perf/studies_load.py [RATERS] [ITEMS]

Each rater is a client that takes items three ahead, fetches their pictures, looks at an item for a moment, sends its mark and
waits for the answer, on connections of its own to a server in another process. Prints the median, p95 and worst
acknowledgement (target at 50 raters on two cores: p95 below 100 ms), and, where Playwright and Chromium are there, how
long one browser takes from a key to the next item painted while the others go on (target: p95 below 300 ms).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.study_screens import screen_study
from support.study_server import KilledServer

LOOK_S = (1.0, 3.0)
"""How long a rater looks at an item: a quick one, five criteria by keys."""


async def rater(address: str, token: str, items: int, rng: random.Random, took: list[float]) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(f"{address}/r/{token}") as answer:
            place = str(answer.url)
        done: list[str] = []
        held: list[dict[str, Any]] = []
        await asyncio.sleep(rng.random() * LOOK_S[1])
        while len(done) < items:
            if not held:
                async with session.post(f"{place}items", json={"n": 3, "held": []}) as answer:
                    held = json.loads(await answer.read())["items"]
                for item in held:
                    for picture in item["pictures"]:
                        async with session.get(f"{place}pictures/{picture['name']}") as answer:
                            await answer.read()
            if not held:
                return
            item = held.pop(0)
            await asyncio.sleep(rng.uniform(*LOOK_S))
            values = {entry["name"]: rng.randint(1, 10) for entry in item["entries"]}
            mark = {"id": f"load-{token[:8]}-{len(done):05d}", "item": item["item"], "values": values, "active": 2}
            start = time.perf_counter()
            async with session.post(f"{place}marks", json={"marks": [mark]}) as answer:
                said = json.loads(await answer.read())
            took.append(time.perf_counter() - start)
            assert said["acknowledged"], said
            done.append(item["item"])


def browser(address: str, token: str, items: int) -> list[float] | str:
    """Milliseconds from the key that ends an item to the next one painted, in one Chromium; a text where there is none."""
    from support.site_browser import CHROMIUM, FLAGS

    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return "playwright is not installed"
    if CHROMIUM is None:
        return "Chromium is not installed"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = running.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{address}/r/{token}")
        before = ""
        for number in range(items):
            page.wait_for_selector(f"main[data-ready]:not([data-ready='{before}'])")
            before = str(page.get_attribute("main", "data-ready"))
            page.wait_for_timeout(1500)
            if number < items - 1:
                for key in ("7", "4", "6", "9", "1", "Enter"):
                    page.keyboard.press(key)
        found = page.evaluate("performance.getEntriesByName('item painted').map(one => one.duration)")
        running.close()
        return [float(one) for one in found[1:]]  # the first one is the start


def told(name: str, values: list[float], most: float) -> None:
    p95 = statistics.quantiles(values, n=20)[-1]
    print(
        f"{name}: median {statistics.median(values):.0f} ms, p95 {p95:.0f} ms "
        f"({'within' if p95 < most else 'ABOVE'} {most:.0f} ms), worst {max(values):.0f} ms, {len(values)} times"
    )


async def load(server: KilledServer, tokens: list[str], items: int) -> tuple[list[float], list[float] | str]:
    took: list[float] = []
    *others, mine = tokens
    work = asyncio.gather(
        *(rater(server.address, token, items, random.Random(n), took) for n, token in enumerate(others))
    )
    seen = await asyncio.to_thread(browser, server.address, mine, min(items, 20))
    await work
    return took, seen


def main() -> None:
    raters, items = map(int, [*sys.argv[1:3], *("50", "20")[len(sys.argv[1:3]) :]])
    with tempfile.TemporaryDirectory() as name:
        study = screen_study(Path(name), "rate", items, overlap=raters + 1)
        tokens = [str(study.raters.add().token) for _ in range(raters + 1)]
        with KilledServer(Path(name)) as server:
            start = time.perf_counter()
            took, seen = asyncio.run(load(server, tokens, items))
            seconds = time.perf_counter() - start
            ticks = sum(map(int, Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))
        print(f"{raters} raters x {items} items in {seconds:.0f} s: {len(took) / seconds:.0f} marks a second")
        print(f"server: {1000 * ticks / os.sysconf('SC_CLK_TCK') / len(took):.1f} ms of CPU a mark, pictures included")
        told("mark to acknowledgement", [1000 * one for one in took], 100)
        if isinstance(seen, str):
            print(f"browser: left out, {seen}")
        else:
            told("next item painted", seen, 300)


if __name__ == "__main__":
    main()
