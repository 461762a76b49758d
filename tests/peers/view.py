"""`gular view` in a real browser: what people do with the page, hostile names, and axe-core's check of its accessibility."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import shlex
import tarfile
import urllib.error
import urllib.request

from _shared import GULAR, check, finish, gular, run, skip

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    skip("view", missing.name, "pip install numpy pillow")
    finish()

from _browser import Browser, program

if not program():
    skip("view", "chromium", "apt-get install chromium")
    finish()

# The accessibility rules, as npm has them.
AXE = "axe-core@4.10.3"
# Names that are HTML, scripts, quotes, changes of direction, and long.
CLASSES = ["cat", "<img src=x onerror=alert(1)>", "\"'><script>alert(2)<&script>", "a\u202egpj.exe", "long " * 40]


@contextlib.contextmanager
def served(*command):
    """The page's address, which is the last line that the program prints; it ends with exit code 0 on Ctrl-C."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("DISPLAY")}
    with subprocess.Popen([GULAR, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment) as process:
        try:
            yield next(line for line in process.stdout if line.startswith("http")).strip()
        finally:
            process.send_signal(signal.SIGINT)
            check(f"{command[1]}: Ctrl-C ends it with exit code 0", process.wait(20) == 0, process.returncode)


def viewed(*what):
    return served("view", *what, "--no-open")


def make_photographs():
    """150 pictures with masks, boxes and points."""
    boxes = ["image_id,class,xmin,ymin,xmax,ymax"]
    points = pathlib.Path("points")
    points.mkdir()
    for i in range(150):
        name = f"{i:03}"
        pixels = np.zeros((48, 64, 3), np.uint8)
        pixels[..., 0] = np.arange(64) * 4
        pixels[..., 1] = np.arange(48)[:, None] * 5
        pixels[10:30, 20:40] = (i, 255 - i, 128)
        mask = np.zeros((48, 64), np.uint8)
        mask[10:30, 20:40] = 1 + i % 3
        for folder, picture in [("images", pixels), ("masks", mask)]:
            path = pathlib.Path("photographs") / folder / f"{name}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(path)
        boxes.append(f'{name}.png,{i % 2},20,10,40,30')
        np.save(points / f"{name}.npy", np.array([[20.0, 10.0], [40.0, 30.0], [64.0, 48.0]]))
    pathlib.Path("boxes.csv").write_text("\n".join(boxes) + "\n")


def make_classes():
    for number, name in enumerate(CLASSES):
        folder = pathlib.Path("hostile") / name.replace("/", "&")
        folder.mkdir(parents=True)
        for i in range(4):
            pixels = np.full((40, 40, 3), 50 * number + i, np.uint8)
            Image.fromarray(pixels).save(folder / f"<b>{i}<b>.png")
    # The same bytes in two classes.
    shutil.copy(pathlib.Path("hostile/cat/<b>0<b>.png"), pathlib.Path("hostile") / CLASSES[1] / "copy.png")


def make_bands():
    noise = np.random.default_rng(0)
    for i in range(6):
        path = pathlib.Path("bands") / f"{i}.npy"
        path.parent.mkdir(exist_ok=True)
        np.save(path, noise.integers(100, 4000, (6, 50, 60), dtype=np.uint16) + np.arange(6, dtype=np.uint16)[:, None, None] * 900)


def axe():
    """The script of axe-core, or `None` where npm is missing."""
    if not shutil.which("npm"):
        skip("axe-core", "npm", "apt-get install npm")
        return None
    run("npm", "pack", AXE, "--silent")
    with tarfile.open(next(pathlib.Path().glob("axe-core-*.tgz"))) as package:
        return package.extractfile("package/axe.min.js").read().decode()


def accessible(browser, name, script):
    if script is None:
        return
    browser.script(f"(() => {{ {script} }})(); 1")
    found = browser.script("axe.run(document).then((r) => r.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => v.id + ': ' + v.nodes.map((n) => n.html.slice(0, 120) + ' ' + n.failureSummary).slice(0, 3).join('; ')))")
    check(f"axe-core: nothing serious: {name}", found == [], found)


TILES = "document.querySelectorAll('main > ul .tile').length"


def photographs(browser, script):
    with viewed("objects") as url:
        browser.size(1200, 800)
        browser.open(url)
        check("it opens with samples", browser.until(f"{TILES} >= 60"), browser.script("document.body.innerText"))
        check("pictures arrive", browser.until("[...document.querySelectorAll('.tile img')].slice(0, 5).every((i) => i.complete && i.naturalWidth > 0)"))
        accessible(browser, "samples", script)
        check("more are loaded when one scrolls", browser.until(f"scrollTo(0, document.body.scrollHeight), {TILES} === 150"), browser.script(TILES))
        # The keyboard alone.
        browser.script("scrollTo(0, 0)")
        browser.key("/", "/", 191)
        check("`/` goes to the search", browser.script("document.activeElement.type") == "search")
        browser.type("14")
        browser.key("Enter", "\r")
        check("a part of a key is searched", browser.until("document.getElementById('status').innerText.startsWith('12 samples')"), browser.script("document.getElementById('status').innerText"))
        browser.script("document.querySelector('.tile').focus()")
        browser.key("ArrowRight")
        second = browser.script("document.activeElement.title")
        browser.key("Enter", "\r")
        browser.until("document.getElementById('picture')?.naturalWidth > 0")
        check("arrows and Enter open a sample", browser.script("document.querySelector('h2').innerText") == second, second)
        accessible(browser, "sample", script)
        # The mask.
        check("the mask is over it", browser.until("document.getElementById('overlay').naturalWidth === 64"))
        browser.script("const o = document.getElementById('opacity'); o.value = 80; o.dispatchEvent(new Event('input')); o.dispatchEvent(new Event('change'));")
        check("the slider changes the mask", browser.script("document.getElementById('overlay').style.opacity") == "0.8")
        colour = "(() => { const i = document.getElementById('overlay'), c = document.createElement('canvas'); c.width = 64; c.height = 48; const x = c.getContext('2d'); x.drawImage(i, 0, 0); return [x.getImageData(25, 15, 1, 1).data[3], x.getImageData(5, 5, 1, 1).data[3]]; })()"
        check("the mask's colours lie on its object", browser.script(colour) == [255, 0], browser.script(colour))
        box = "(() => { const b = document.querySelector('svg .box'); return ['x', 'y', 'width', 'height'].map((n) => Math.round(b.getAttribute(n))); })()"
        check("the box is drawn", browser.script(box) == [20, 10, 20, 20], browser.script(box))
        named = browser.script("document.querySelector('[aria-label=\"Classes of the boxes\"]')?.innerText")
        check("and its class is named in its colour", named and named.strip() in ("0", "1"), named)
        points = "[...document.querySelectorAll('svg .point')].map((p) => [Number(p.getAttribute('cx')), Number(p.getAttribute('cy'))])"
        check("the points are drawn", browser.script(points) == [[20, 10], [40, 30], [64, 48]], browser.script(points))
        text = browser.script("document.querySelector('main').innerText")
        check("key, digests and the place in the bundle are told", second in text and text.count("blake3:") >= 4 and "shard" in text and "number" in text, text)
        check("the histogram has three colours and their range", browser.until("document.querySelectorAll('.plot polyline').length === 3 && document.querySelectorAll('.plot + .scroll tbody tr').length === 3"))
        browser.key("ArrowRight")
        check("an arrow shows the next sample", browser.until(f"document.querySelector('h2').innerText !== {json.dumps(second)}"))
        browser.script("history.back()")
        check("back shows the sample before", browser.until(f"document.querySelector('h2').innerText === {json.dumps(second)}"))
        check("with the slider where it was", browser.until("document.getElementById('opacity')?.value === '80'"))
        browser.script("history.back()")
        check("and then the search", browser.until(f"{TILES} === 12"), browser.script("location.hash"))
        # A condition.
        browser.script("const w = document.querySelectorAll('input[type=search]')[1]; w.value = \"key = 'images/007.png'\"; document.querySelectorAll('input[type=search]')[0].value = ''; w.form.requestSubmit()")
        check("a condition filters", browser.until(f"{TILES} === 1 && document.querySelector('.tile').title === 'images/007.png'"), browser.script("document.body.innerText"))
        browser.script("const v = document.querySelectorAll('input[type=search]')[1]; v.value = 'kee = 1'; v.form.requestSubmit()")
        check("a wrong condition is explained", "is not a condition: at character 1" in (browser.until("document.querySelector('[role=alert]')?.innerText") or ""))
        browser.faults[:] = [fault for fault in browser.faults if "400 (Bad Request)" not in fault]
        # What training sees.
        browser.open(f"{url}#/training")
        browser.until("document.querySelectorAll('#batch .tile').length === 16")
        accessible(browser, "training", script)
        images = "[...document.querySelectorAll('#batch .thumb > img:first-child')].map((i) => i.src)"
        before = browser.script(images)
        browser.script("document.getElementById('change-vertical_flip').click()")
        flipped = browser.until(f"(() => {{ const now = {images}; return now.length === 16 && now.some((s, i) => s !== {json.dumps(before)}[i]) && now; }})()")
        check("an augmentation changes the batch", bool(flipped))
        check("the masks are moved with it", browser.script("document.querySelectorAll('#batch .moved').length") == 16)
        code = browser.script("document.querySelector('.code pre').innerText")
        check("the line for Python has it", "augment=[gular.VerticalFlip(p=0.5)]" in code, code)
        rust = browser.script("document.querySelectorAll('.code pre')[1].innerText")
        check("and the options for Rust", "LoaderOptions" in rust and "VerticalFlip" in rust, rust)
        browser.script("document.querySelector('.code button').click()")
        copied = browser.until("(() => { const t = document.getElementById('status').innerText; return (t === 'Copied.' || t.includes('the text is selected')) && t; })()")
        check("the button copies them, or says why not", bool(copied), browser.script("document.getElementById('status').innerText"))
        check("and the fields that are shown", 'fields=["boxes", "box_labels", "mask"]' in code, code)
        browser.script("document.querySelector('[aria-label=\"Epoch after\"]').click()")
        check("another epoch is another batch", browser.until(f"document.getElementById('status').innerText.startsWith('Epoch 1,') && JSON.stringify({images}) !== {json.dumps(json.dumps(flipped))}"))
        browser.script("document.querySelector('#batch .tile').click()")
        check("a sample shows the crop of each epoch", browser.until("document.querySelectorAll('svg .crop').length === 8"), browser.script("document.body.innerText"))
        accessible(browser, "epochs of a sample", script)
        browser.script("history.back()")
        check("back shows the batch with its settings", browser.until("document.querySelectorAll('#batch .tile').length === 16 && document.getElementById('change-vertical_flip').checked"))
        # A phone, and dark.
        browser.size(360, 700, True)
        for view in ["samples", "sample/0.0", "training", "training?id=0.0", "pairs", "about"]:
            browser.open(f"{url}#/{view}")
            browser.until("document.querySelector('h2') && document.querySelectorAll('main img, main table, main li').length")
            wide = browser.script("document.documentElement.scrollWidth")
            check(f"a phone's width is enough: {view}", wide <= 360, wide)
        browser.size(1200, 800)
        browser.scheme("dark")
        for view in ["samples", "sample/0.0", "about"]:
            browser.open(f"{url}#/{view}")
            browser.until("document.querySelector('h2') && document.querySelectorAll('main img, main table').length")
            ground = browser.script("getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/g).map(Number)")
            check(f"it is dark where the system is: {view}", max(ground) < 60, ground)
            accessible(browser, f"dark {view}", script)
        browser.scheme("light")


def only_here(url):
    """Requests of other pages, and for other names of this machine, are refused."""
    host = url.split("/")[2]
    for name, headers, status in [("itself", {}, 200), ("another host", {"Host": "evil.example"}, 403), ("another origin", {"Origin": "http://evil.example"}, 403)]:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host, **headers})) as answer:
                found, policy = answer.status, answer.headers["Content-Security-Policy"]
        except urllib.error.HTTPError as error:
            found, policy = error.code, error.headers["Content-Security-Policy"]
        check(f"{name} gets {status}", found == status, found)
        check(f"no script but the page's own: {name}", "script-src 'self';" in policy and "unsafe" not in policy, policy)


def hostile(browser):
    with viewed("names") as url:
        only_here(url)
        browser.open(f"{url}#/samples")
        browser.until(f"{TILES} === 21")
        browser.script("const c = document.querySelectorAll('main select')[1]; c.value = '1'; c.dispatchEvent(new Event('change'))")
        check("a class filters", browser.until(f"{TILES} === 5 && [...document.querySelectorAll('.tile')].every((t) => t.innerText.includes('onerror'))"), browser.script("document.body.innerText"))
        for view in ["samples", "about", "training", "pairs?kind=equal"]:
            browser.open(f"{url}#/{view}")
            browser.until("document.querySelectorAll('main li, main tr').length > 3")
            texts = view == "training" or browser.until("document.body.innerText.includes('<')")
            check(f"names are texts: {view}", texts, browser.script("document.body.innerText"))
            # Markup of names would be elements that the page itself never has.
            strange = browser.script("[...document.querySelectorAll('main script, main b, main [onerror], img[src=x]')].length")
            check(f"no name became an element: {view}", strange == 0, strange)
        browser.open(f"{url}#/about")
        browser.until("document.body.innerText.includes('gpj.exe')")
        shown = browser.script("document.body.innerText")
        check("a change of direction is shown, not done", "a\\u{202e}gpj.exe" in shown, shown)
        check("values that are no texts are not shown", "null" not in shown and "false" not in shown, shown)
        browser.open(f"{url}#/pairs?kind=equal")
        check("the same picture in two classes is found", browser.until("document.body.innerText.includes('of several classes')"), browser.script("document.body.innerText"))
        browser.open(f"{url}#/pairs?kind=alike&start=1")
        check("pictures that look alike are found", browser.until("document.querySelectorAll('.pairs > li').length > 0"), browser.script("document.body.innerText"))
        # The policy: nothing that is written into the page runs.
        browser.script("document.body.insertAdjacentHTML('beforeend', '<img src=y onerror=\"window.ran = 1\">'); 1")
        browser.until("false", 0.5)
        check("the policy stops scripts in the page", browser.script("window.ran === undefined"))
        stopped = [fault for fault in browser.faults if "Content Security Policy" in fault]
        check("and the browser says so", bool(stopped), browser.faults)
        browser.faults[:] = [fault for fault in browser.faults if fault not in stopped and "/y" not in fault]


def trained(browser, script):
    for run, speed in [("run1", 1), ("run2", 2)]:
        pathlib.Path(run).mkdir()
        lines = [{"step": step, "epoch": 0, "wall": step, "loss": 3 / (1 + speed * step), "images_per_second": 100 * speed} for step in range(50)]
        pathlib.Path(run, "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = ["key,label,prediction,probability"]
    rows += [f'"{CLASSES[at % 2]}/<b>{n}<b>.png","{CLASSES[at % 2]}",{at * n % 2},0.{9 - n}' for at in range(2) for n in range(4)]
    pathlib.Path("answers.csv").write_text("\n".join(rows) + "\n")
    # As Python's `json` writes what is not finite, and a line that a kill cut.
    pathlib.Path("broken.jsonl").write_text(json.dumps({"step": 1, "broken": 1.0}) + "\n" + json.dumps({"step": 2, "broken": float("nan")}) + '\n{"step": 3, "bro{"step": 3}\n' + json.dumps({"step": 4, "broken": 2.0}) + "\n")
    with viewed("names", "broken.jsonl") as url:
        browser.open(f"{url}#/runs")
        check("a value that is not finite is a gap", browser.until("document.querySelectorAll('.charts polyline').length === 2"), browser.script("document.body.innerText"))
        text = browser.script("document.body.innerText")
        check("and it is said", "1 value not finite" in text and "1 line left out; line 3 is not a JSON object" in text, text)
    with viewed("names", "run1", "run2", "answers.csv") as url:
        browser.open(f"{url}#/runs")
        check("a chart for each metric", browser.until("document.querySelectorAll('.charts svg').length === 2"), browser.script("document.body.innerText"))
        check("a line for each run", browser.script("document.querySelectorAll('.charts polyline').length") == 4)
        check("wrong predictions have their pictures", browser.until("[...document.querySelectorAll('main section .tile img')].some((i) => i.naturalWidth > 0)"), browser.script("document.body.innerText"))
        check("the confusion matrix counts them", browser.script("document.querySelectorAll('section tbody tr').length") == len(CLASSES))
        accessible(browser, "training runs", script)


def before_packing(browser, script):
    pathlib.Path("source/odd").mkdir(parents=True)
    for name in ["cat", "dog"]:
        (pathlib.Path("source") / name).mkdir()
        for i in range(10):
            shutil.copy(f"photographs/images/{i:03}.png", pathlib.Path("source") / name)
    pathlib.Path("source/odd/x.png").write_text("no image")
    with served("pack", "source", "nothing", "--dry-run", "--view") as url:
        browser.open(url)
        words = browser.until("document.querySelector('section .tile img')?.naturalWidth > 0 && document.querySelector('main').innerText") or browser.script("document.body.innerText")
        check("it begins with how the source was read", "read as: --images '{label}/{key}.{ext}'" in words, words)
        check("doubts are told", "warning: classes with one sample" in words, words)
        check("what would be left out is told, with the reason", "1 input" in words and "odd/x.png`: " in words, words)
        first = browser.script("[...document.querySelectorAll('main section h4')].map((h) => h.innerText + ' ' + h.parentNode.querySelectorAll('.tile').length)")
        check("each class has its first pictures", first == ["cat 6", "dog 6"], first)
        accessible(browser, "how it was read", script)
        browser.open(f"{url}#/training")
        code = browser.until("document.querySelector('.code pre')?.innerText") or ""
        check("the line for Python names no source as a bundle", code.startswith('gular.DataLoader("BUNDLE"'), code)
        browser.open(f"{url}#/samples")
        check("and shows the first pictures", browser.until(f"{TILES} === 20 && [...document.images].every((i) => i.naturalWidth > 0)"), browser.script("document.body.innerText"))
    check("nothing was packed", not pathlib.Path("nothing").exists())
    # A question that the files answer: each other reading is a whole command.
    with served("pack", "photographs", "nothing 2", "--dry-run", "--view") as url:
        browser.open(url)
        browser.until("document.querySelector('section .tile .over')?.naturalWidth > 0")
        asked = browser.script("[...document.querySelectorAll('.question > p')].map((p) => p.innerText)")
        check("a question says how it was answered", len(asked) == 1 and "is read as mask" in asked[0], asked)
        check("masks are over their pictures", browser.script("document.querySelectorAll('.over').length") >= 7)
        commands = browser.script("[...document.querySelectorAll('.question pre')].map((p) => p.innerText)")
        check("every other reading has a command and a button", bool(commands) and browser.script("document.querySelectorAll('.question button').length") == len(commands), commands)
        accessible(browser, "a question", script)
    for command in commands or []:
        program, *words = shlex.split(command)
        check("the command is of this source, and for good", program == "gular" and words[:3] == ["pack", "photographs", "nothing 2"] and "--view" not in words, command)
        done = subprocess.run([GULAR, *words, "--dry-run"], capture_output=True, text=True)
        check("and can be run", done.returncode == 0 and "is read as mask" not in done.stderr, done.stderr)


def in_one_file(browser, script):
    """The pages of `inspect` and `bench`, opened from the disk."""
    gular("inspect", "names", "--page", "names.html", "--near", "--pairs", "pairs.html", "--sheet", "sheet.png")
    gular("inspect", "scenes", "--page", "scenes.html")
    subprocess.run([GULAR, "bench", "hostile", "--quick", "--rounds", "1", "--seconds", "0.01", "--html", "bench.html"], check=True, capture_output=True)
    at = lambda name: pathlib.Path(name).resolve().as_uri()
    loaded = "[...document.querySelectorAll('main img')].length > 0 && [...document.querySelectorAll('main img')].every((i) => i.naturalWidth > 0)"
    browser.size(1200, 800)
    browser.open(at("names.html"))
    check("a page in one file has its pictures", browser.until(f"{TILES} === 21 && {loaded}"), browser.script("document.body.innerText"))
    check("names are texts there", browser.script("document.querySelectorAll('main b, main script, img[src=x]').length === 0 && document.body.innerText.includes('<b>0<b>')"))
    accessible(browser, "one file", script)
    browser.script("const c = document.querySelectorAll('main select')[1]; c.value = '0'; c.dispatchEvent(new Event('change'))")
    check("its classes can be filtered", browser.until(f"{TILES} === 4"), browser.script(TILES))
    browser.script("document.querySelector('.tile').click()")
    check("a sample has its fields and histogram", browser.until("document.getElementById('picture')?.naturalWidth > 0 && document.querySelectorAll('.plot polyline').length > 0 && document.body.innerText.includes('blake3:')"), browser.script("document.body.innerText"))
    browser.open(at("names.html") + "#/about")
    text = browser.until("document.body.innerText.includes('gpj.exe') && document.body.innerText") or ""
    check("every class is counted", "?" not in text.split("Classes")[-1].split("How it was made")[0], text)
    browser.open(at("pairs.html"))
    check("pairs are in one file, too", browser.until(f"document.querySelectorAll('.pairs > li').length > 0 && {loaded}"), browser.script("document.body.innerText"))
    browser.open(at("scenes.html"))
    check("arrays are", browser.until(f"{TILES} === 6 && {loaded}"), browser.script("document.body.innerText"))
    browser.open(at("bench.html"))
    check("and measurements, as bars and figures", browser.until("document.querySelectorAll('.bars tr').length > 3 && document.querySelectorAll('main table').length > 3"), browser.script("document.body.innerText"))
    check("with a recommendation", "Pick " in (browser.script("document.querySelector('.question')?.innerText") or ""), browser.script("document.body.innerText"))
    accessible(browser, "measurements", script)
    browser.size(360, 700, True)
    for name in ["names.html", "pairs.html", "bench.html"]:
        browser.open(at(name))
        browser.until("document.querySelectorAll('main img, main table').length")
        wide = browser.script("document.documentElement.scrollWidth")
        check(f"a phone's width is enough: {name}", wide <= 360, wide)
    browser.size(1200, 800)


def without_bundle(browser, script):
    """Tables that anybody wrote, with and without the bundle."""
    rows = [(f"{CLASSES[at % 2]}/<b>{n}<b>.png", CLASSES[at % 2], CLASSES[at * n % 2], [0.6, 0.9, 0.7, 0.8][n]) for at in range(2) for n in range(4)]
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        skip("predictions in Parquet", "pyarrow", "pip install pyarrow")
        return
    columns = dict(zip(["key", "label", "prediction", "probability"], map(list, zip(*rows))))
    pyarrow.parquet.write_table(pyarrow.table(columns), "answers.parquet")
    pyarrow.parquet.write_table(pyarrow.table(columns), "plain.parquet", compression="none", use_dictionary=False)
    pyarrow.parquet.write_table(pyarrow.table(columns), "brotli.parquet", compression="brotli")
    pyarrow.parquet.write_table(pyarrow.table(columns), "zstd.parquet", compression="zstd")
    with viewed("brotli.parquet") as url:
        browser.open(url)
        text = browser.until("document.querySelector('[role=alert]')?.innerText")
        check("what is not read is named", text and "column `key` is not read: it is compressed with brotli" in text, text)
    for table in ["answers.parquet", "plain.parquet", "zstd.parquet"]:
        with viewed("names", table) as url:
            browser.open(f"{url}#/runs")
            text = browser.until("[...document.querySelectorAll('main section .tile img')].some((i) => i.naturalWidth > 0) && document.querySelector('main').innerText") or browser.script("document.body.innerText")
            check(f"{table}: right and wrong are counted", "8 predictions, 75.00 %" in text, text)
            shown = browser.script("[...document.querySelectorAll('main section .tile')].map((t) => t.title)")
            check(f"{table}: the surest wrong one is first", shown == [f"{CLASSES[1]}/<b>{n}<b>.png" for n in [2, 0]], shown)
            check(f"{table}: nothing is said of what the table does not have", "least expected" not in text and "does not say how probable" in text, text)
    with viewed("run1", "run2", "answers.parquet") as url:
        browser.open(url)
        text = browser.until("document.querySelectorAll('.charts svg').length === 2 && document.querySelector('main section tbody') && document.querySelector('main').innerText") or browser.script("document.body.innerText")
        check("without the bundle, curves and matrix are shown", "75.00 %" in text and browser.script("document.querySelectorAll('section tbody tr').length") == 2, text)
        check("and how to see the pictures", "gular view BUNDLE run1 run2 answers.parquet" in text and "the picture is in the bundle" in text, text)
        check("no view is offered that needs it", browser.script("[...document.querySelectorAll('nav a')].filter((a) => !a.hidden).length") == 1)
        accessible(browser, "runs alone", script)


def leaking(browser):
    """Nine samples of one picture, of which the last is in another split."""
    for n in range(9):
        folder = pathlib.Path("leaks") / ("train" if n < 8 else "val") / "cat"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy("photographs/images/000.png", folder / f"{n}.png")
    gular("pack", "leaks", "leaking", "--images", "{split}/{label}/{key}.png")
    with viewed("leaking") as url:
        browser.open(f"{url}#/pairs?kind=equal")
        found = browser.until("document.querySelector('.pairs p')?.innerText") or ""
        check("a leak in samples that are not listed is told", "in several splits: train, val" in found and "5 of 9 shown" in found, found)
        check("with the pictures of those that are", browser.until("document.images.length === 5 && [...document.images].every((i) => i.naturalWidth > 0)"))


def bands(browser):
    with viewed("scenes") as url:
        browser.open(f"{url}#/sample/0.0")
        browser.until("document.getElementById('picture')?.naturalWidth === 60")
        key = browser.script("document.querySelector('h2').innerText")
        stored = np.load(pathlib.Path("bands") / key)
        check("numbers are stretched at first", browser.script("document.getElementById('stretch').checked"))
        before = browser.script("document.getElementById('picture').src")
        browser.script("for (const [at, value] of ['5', '0', '3'].entries()) { const s = document.querySelector(`[data-band=\"${at}\"]`); s.value = value; s.dispatchEvent(new Event('change')); }")
        after = browser.script("document.getElementById('picture').src")
        check("any three bands can be chosen", "bands=5%2C0%2C3" in after and after != before, after)
        check("and their picture arrives", browser.until("document.getElementById('picture').complete && document.getElementById('picture').naturalWidth === 60"))
        seen = browser.script("(() => { const i = document.getElementById('picture'), c = document.createElement('canvas'); c.width = 60; c.height = 50; const x = c.getContext('2d'); x.drawImage(i, 0, 0); return [...x.getImageData(0, 0, 60, 50).data]; })()")
        seen = np.array(seen).reshape(50, 60, 4)[..., :3]
        chosen = stored[[5, 0, 3]].astype(float).transpose(1, 2, 0)
        low, high = np.percentile(chosen, [2, 98], axis=(0, 1), method="nearest")
        expected = np.clip((chosen - low) / (high - low) * 255, 0, 255)
        check("from the 2nd to the 98th percentile of each band", np.abs(seen - expected).max() < 1.5, np.abs(seen - expected).max())
        check("the histogram has every band", browser.until("document.querySelectorAll('.plot polyline').length === 6"))
        browser.open(f"{url}#/training")
        hint = browser.until("[...document.querySelectorAll('label')].find((l) => l.innerText.startsWith('Bands'))?.querySelector('input').placeholder")
        check("the example of bands exists", hint == "all, or such as 2,1,0", hint)
        browser.until("document.querySelectorAll('#batch .tile').length === 6")


make_photographs()
gular("pack", "photographs", "objects", "--images", "images/{key}.png", "--mask", "masks/{key}.png", "--labels", "boxes.csv", "--field", "points=./points/{key}.npy")
make_classes()
gular("pack", "hostile", "names")
make_bands()
gular("pack", "bands", "scenes", "--labels", "none", "--as", "arrays", "--axes", "cyx")
script = axe()
with Browser() as browser:
    photographs(browser, script)
    hostile(browser)
    leaking(browser)
    bands(browser)
    trained(browser, script)
    without_bundle(browser, script)
    before_packing(browser, script)
    in_one_file(browser, script)
    check("the console is empty", browser.faults == [], browser.faults)
finish()
