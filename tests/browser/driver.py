"""Drives a headless Chromium through chromedriver, with the standard library alone."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
]


class Browser:
    """One browser with an empty profile; use it in a `with`."""

    def __init__(self, size=(1300, 1000), dark=False, javascript=True):
        self.profile = tempfile.mkdtemp(prefix="pi-sessions-browser-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        driver = shutil.which("chromedriver") or "/usr/bin/chromedriver"
        self.process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.wait_until_ready()
        # The scheme of the system as the page sees it: 0 is dark, 1 is light.
        scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
        args = FLAGS + [f"--user-data-dir={self.profile}", f"--window-size={size[0]},{size[1]}", scheme]
        options = {"binary": shutil.which("chromium") or "/usr/bin/chromium", "args": args}
        if not javascript:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        try:
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except Exception:
            self.close()
            raise
        self.session = f"/session/{made['sessionId']}"

    def wait_until_ready(self):
        for _ in range(200):
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        raise RuntimeError("chromedriver does not answer")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.process.terminate()
            self.process.wait()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def open(self, url):
        self.call("POST", f"{self.session}/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(args)})

    def keys(self, text):
        """Types into whatever has the focus."""
        presses = [{"type": kind, "value": char} for char in text for kind in ("keyDown", "keyUp")]
        self.call("POST", f"{self.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": presses}]})

    def until(self, script, *args):
        """Waits until the script gives something true, 5 seconds at most, and returns it."""
        end = time.monotonic() + 5
        while True:
            value = self.run(script, *args)
            if value or time.monotonic() > end:
                return value
            time.sleep(0.03)

    def log(self):
        """What the console said since the last call."""
        return [f"{line['level']}: {line['message']}" for line in self.call("POST", f"{self.session}/se/log", {"type": "browser"})]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", f"{self.session}/screenshot")))
