#!/usr/bin/env python3
"""Looks at exported pages in a headless Chromium: `check.py BINARY [FOLDER FOR SCREENSHOTS]`.

BINARY is `pi-sessions`. Needs chromium and chromedriver (Debian: chromium, chromium-driver), nothing else.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from driver import Browser

TOP = pathlib.Path(__file__).resolve().parents[2]
failures = []
passed = 0


def check(what, holds, seen=""):
    global passed
    if holds:
        passed += 1
    else:
        failures.append(what)
        print(f"FAILED: {what} {seen}")


def export(binary, session, folder, *options):
    page = folder / f"{session.parent.name}{''.join(options)}.html"
    subprocess.run([binary, "export", session, "--format", "html", *options, "-o", page], check=True, stdout=subprocess.DEVNULL)
    return page.as_uri()


def long_session(folder):
    """5,000 entries on some forty branches."""
    path = folder / "long" / "input.jsonl"
    path.parent.mkdir()
    lines = [{"type": "session", "version": 3, "id": "long", "timestamp": "2026-11-29T23:10:10.241Z", "cwd": "/x"}]
    text = "Some words of an answer, with `code` and **more**.\n\n```rust\nfn main() { println!(\"hello\"); }\n```\n" * 3
    usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {"total": 0.001}}
    parent = None
    for n in range(5000):
        message = {"role": "user", "content": f"Question {n}"}
        if n % 5:
            message = {"role": "assistant", "content": [{"type": "text", "text": f"Answer {n}. {text}"}], "model": "m", "usage": usage}
        entry = {"type": "message", "id": f"{n:08x}", "parentId": parent, "timestamp": "2026-11-29T23:10:10.241Z", "message": message}
        lines.append(entry)
        parent = f"{n - 60:08x}" if n % 125 == 124 else entry["id"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def visible(browser, text):
    """Whether an entry on show has the text; not `innerText`, which leaves out what Chromium has not laid out yet."""
    return browser.run("return [...document.querySelectorAll('main article')].some((e) => e.checkVisibility() && e.textContent.includes(arguments[0]))", text)


def hostile(binary, folder):
    url = export(binary, TOP / "fixtures/export/hostile/input.jsonl", folder)
    with Browser() as browser:
        browser.open(url)
        browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
        check("the tree has a row for each entry", browser.run("return document.querySelectorAll('.tree .r').length") == 23)
        browser.run("document.querySelector('.tree').className = 'tree all'")
        for row in range(23):
            browser.run("document.querySelectorAll('.tree .r')[arguments[0]].click()", row)
            if row == 2:
                check("an entry with markup for an id is gone to", browser.run("return document.querySelector('.e.here').id").startswith('"><img'))
            if row == 4:
                check("the other branch is shown", browser.run("return document.getElementById('constructor') !== null"))
        browser.run("for (const e of document.querySelectorAll('main *')) for (const t of ['click', 'mouseover', 'load', 'error']) "
                    "if (e.tagName !== 'A') e.dispatchEvent(new Event(t, {bubbles: true}))")
        check("no script of the session runs", browser.run("return window.pwned === undefined"))
        loads = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith('data:'))")
        check("nothing is loaded", loads == [], loads)
        log = browser.log()
        check("the console is silent", log == [], log)
        # What would run without our escaping: the policy of the page stops it, and says so.
        browser.run("document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=data:x onerror=\"window.pwned=99\">')")
        check("the policy stops scripts all the same", browser.until("return window.pwned === undefined") and
              any("Content Security Policy" in line for line in browser.log()))


def branches(binary, folder, shots):
    url = export(binary, TOP / "fixtures/export/branches/input.jsonl", folder)
    for theme in ("light", "dark"):
        with Browser(dark=theme == "dark") as browser:
            browser.open(url)
            background = browser.run("return getComputedStyle(document.body).backgroundColor")
            check(f"the page is {theme} as the system is", background == ("rgb(255, 255, 255)" if theme == "light" else "rgb(21, 23, 26)"), background)
            if shots:
                browser.screenshot(shots / f"top-{theme}.png")
                browser.run("document.querySelectorAll('.tool').forEach((fold) => { fold.open = true; }); scrollTo(0, 450)")
                browser.until("return document.querySelector('.tool .k') !== null")
                browser.screenshot(shots / f"code-{theme}.png")
    with Browser() as browser:
        browser.open(url)
        check("the active path is shown", visible(browser, "in red") and not visible(browser, "Now in French"))
        browser.run("document.querySelector('.tree .r.off.user').click()")
        check("a click in the tree switches the branch", visible(browser, "Now in French") and not visible(browser, "Leave French"))
        check("the order is that of the branch", browser.run(
            "const all = [...document.querySelectorAll('.talk article')].map((e) => e.textContent);"
            "return all.findIndex((t) => t.includes('The greeting is now')) < all.findIndex((t) => t.includes('Now in French'))"))
        check("the address names the entry", browser.run("return location.hash") == "#0000000b", browser.run("return location.hash"))
        browser.run("[...document.querySelectorAll('.tree .r.off.user')].pop().click()")
        check("and back", visible(browser, "Leave French") and not visible(browser, "Now in French"))

        browser.open("about:blank")
        browser.open(url + "#0000000e")
        check("a link to an entry of another branch shows it", browser.until(
            "const e = document.getElementById('0000000e'); return e && e.getBoundingClientRect().top < innerHeight") and visible(browser, "does not compile"))

        browser.open("about:blank")
        browser.open(url + "#00000005")
        check("a link to a result unfolds its call", browser.until("return document.getElementById('00000005').checkVisibility()"))
        check("code is coloured when it is seen", browser.until("return document.querySelector('.tool[open] .k') !== null"))

        browser.open("about:blank")
        browser.open(url)
        browser.keys("j")
        first = browser.until("return document.querySelector('.e.here')?.id")
        browser.keys("jj")
        second = browser.run("return document.querySelector('.e.here').id")
        browser.keys("kk")
        check("j and k go on and back", first != second and browser.run("return document.querySelector('.e.here').id") == first)
        browser.keys("J")
        check("J goes to the next user message", browser.run("return document.querySelector('.e.here').classList.contains('user')"))
        browser.keys("/french")
        check("a search counts", browser.until("return document.querySelector('output').textContent.endsWith('/ 4')"),
              browser.run("return document.querySelector('output').textContent"))
        browser.keys("\ue007")
        check("Enter goes to the hit on another branch", browser.until("return document.getElementById('0000000b') !== null"))
        check("hits are marked", browser.run("return CSS.highlights.has('hit')"))
        browser.keys("\ue00c")
        browser.keys("t")
        check("t hides the tree", not browser.run("return document.querySelector('aside').checkVisibility()"))
        browser.keys("d")
        check("d makes it dark", browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(21, 23, 26)")
        browser.keys("?")
        check("? lists the keys", browser.run("return document.querySelector('dialog').open"))
        browser.keys("?")
        browser.keys("e")
        check("e unfolds everything", browser.run("return document.querySelector('.talk details:not([open])') === null"))
        log = browser.log()
        check("the console is silent", log == [], log)
    with Browser(size=(420, 800)) as browser:
        browser.open(url)
        check("a small screen shows no tree and scrolls up and down only", browser.run(
            "return !document.querySelector('aside').checkVisibility() && document.documentElement.scrollWidth <= innerWidth"))
        browser.run("document.querySelector('[data-do=tree]').click()")
        check("until it is asked for", browser.run("return document.querySelector('aside').checkVisibility()"))
    with Browser(javascript=False) as browser:
        browser.open(url)
        check("without JavaScript the active path is read", visible(browser, "in red") and not visible(browser, "Now in French"))
        check("and no button is shown that does nothing", browser.run("return document.querySelector('.bar button').checkVisibility()") is False)


def speed(binary, folder, shots):
    timing = "const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd > 0 && t.loadEventEnd"
    largest = export(binary, TOP / "fixtures/pi/v1-long-conversation/input.jsonl", folder)
    long = export(binary, long_session(folder), folder)
    for name, url in (("the largest real session", largest), ("5,000 entries", long)):
        times = []
        for _ in range(5):
            with Browser() as browser:
                browser.open(url)
                times.append(browser.until(timing))
        median = statistics.median(times)
        # Told, not judged: a busy machine says nothing about the page.
        print(f"load event of {name}: median {median:.0f} ms of {[round(time) for time in times]}")
    with Browser() as browser:
        browser.open(long)
        took = browser.run(
            "const rows = [...document.querySelectorAll('.r.off.user')]; const t = performance.now(); rows[5].click();"
            "document.body.offsetHeight; return performance.now() - t")
        print(f"switching a branch among 5,000 entries: {took:.0f} ms")
        check("the console is silent", browser.log() == [])
    if shots:
        with Browser() as browser:
            browser.open(largest + "#3e8e47cf")
            browser.screenshot(shots / "largest.png")


def main():
    binary = pathlib.Path(sys.argv[1]).resolve()
    shots = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        hostile(binary, folder)
        branches(binary, folder, shots)
        speed(binary, folder, shots)
    print(f"{passed} passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
