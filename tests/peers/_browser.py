"""Chromium, driven over its DevTools protocol: messages in JSON, each ended by a zero, through two pipes."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time


def program():
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page of a browser without a window. `faults` has what its console, its policies and its scripts complain about."""

    def __init__(self):
        self.profile = tempfile.TemporaryDirectory()
        (read, child_writes), (child_reads, write) = os.pipe(), os.pipe()
        flags = ["--headless=new", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")
        # The browser reads from 3 and writes to 4.
        shell = f'exec "$@" 3<&{child_reads} 4>&{child_writes}'
        command = ["sh", "-c", shell, "sh", program(), *flags, f"--user-data-dir={self.profile.name}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=[child_reads, child_writes], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(child_reads)
        os.close(child_writes)
        self.read, self.write, self.rest, self.number = read, write, b"", 0
        self.faults, self.session = [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Accessibility"]:
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        os.close(self.read)
        os.close(self.write)
        self.profile.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self._event(answer)

    def _message(self):
        while b"\0" not in self.rest:
            more = os.read(self.read, 1 << 20)
            if not more:
                raise AssertionError("the browser is gone")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def _event(self, event):
        about = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.faults.append(about["exceptionDetails"].get("exception", {}).get("description") or about["exceptionDetails"]["text"])
        elif event.get("method") == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.faults.append(f"{about['entry']['text']} {about['entry'].get('url', '')}")
        elif event.get("method") == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.faults.append(str([one.get("value") for one in about["args"]]))
        elif event.get("method") == "Page.javascriptDialogOpening":
            self.faults.append(f"a dialog: {about['message']}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def script(self, code):
        """The value of an expression, or of what a promise becomes."""
        result = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, code, seconds=30):
        """Waits until an expression is true; its value."""
        end = time.monotonic() + seconds
        while True:
            value = self.script(code)
            if value or time.monotonic() > end:
                return value
            time.sleep(0.05)

    def key(self, name, text=None, code=0):
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9}
        about = {"key": name, "code": name, "windowsVirtualKeyCode": codes.get(name, code)}
        down = {**about, "text": text} if text else about
        self.call("Input.dispatchKeyEvent", type="keyDown", **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def size(self, width, height, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))
