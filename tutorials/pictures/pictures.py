"""Pictures of what a training run or a measurement left. Needs Python and nothing else.

    python pictures.py curves loss.svg run1/metrics.jsonl run2/metrics.jsonl    # loss by step, accuracy by epoch
    python pictures.py confusion matrix.svg matrix.csv                          # of `gular-train eval --confusion`
    python pictures.py bars seconds.svg measured.tsv "seconds (less is better)" # lines of name, TAB, number
    python pictures.py predictions answers.html answers.csv bundle/             # of `gular-train predict`

SVG and HTML files open in any browser, without a network.
"""

import base64
import csv
import html
import json
import os
import pathlib
import subprocess
import sys

COLOURS = ["#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e"]
STYLE = """text{fill:#222}.axis{stroke:#9aa5b1;fill:none}.paper{fill:#fff}
@media (prefers-color-scheme: dark){text{fill:#e6e6e6}.paper{fill:#16191d}}"""


def svg(width, height, title, inside):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="14">\n'
        f'<style>{STYLE}</style>\n<rect class="paper" width="100%" height="100%"/>\n'
        f'<text x="16" y="26" font-weight="600">{html.escape(title)}</text>\n' + "\n".join(inside) + "\n</svg>\n"
    )


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(str(words))}</text>'


def panel(top, name, runs):
    """One plot: `runs` has a list of (x, y) for each file."""
    left, width, height = 70, 600, 150
    points = [point for run in runs for point in run]
    if not points:
        return []
    most_x, most_y = max(x for x, _ in points), max(y for _, y in points) or 1
    inside = [
        f'<path class="axis" d="M{left} {top}v{height}h{width}"/>',
        text(left - 8, top + 10, f"{most_y:.3g}", "end"), text(left - 8, top + height, 0, "end"),
        text(left + width, top + height + 18, f"{most_x:g}", "end"), text(left, top - 8, name),
    ]  # fmt: skip
    for number, run in enumerate(runs):
        line = " ".join(f"{left + width * x / (most_x or 1):.1f},{top + height * (1 - y / most_y):.1f}" for x, y in run)
        # A later line is thinner: where two are equal, both can be seen.
        wide = max(6 - 3 * number, 1.5)
        inside.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="{wide}"/>')
    return inside


def curves(*files):
    found = [[json.loads(line) for line in pathlib.Path(file).read_text().splitlines()] for file in files]
    series = lambda name: [[(line["step"], line[name]) for line in lines if name in line] for lines in found]
    inside = panel(80, "loss, by step", series("loss")) + panel(280, "accuracy of the validation, by step", series("val_accuracy"))
    for number, file in enumerate(files):
        x = 70 + number * 300
        inside.append(f'<rect x="{x}" y="462" width="14" height="14" fill="{COLOURS[number % len(COLOURS)]}"/>')
        inside.append(text(x + 20, 474, file))
    return svg(720, 490, "Training", inside)


def confusion(file):
    with open(file, newline="") as lines:
        (_, *classes), *rows = csv.reader(lines)
    side, left, top = max(24, min(60, 600 // len(classes))), 160, 80
    inside = [text(16, 50, "columns: the predicted class; rows: the true class")]
    for i, (name, *counts) in enumerate(rows):
        counts = [int(count) for count in counts]
        inside.append(text(left - 8, top + side * (i + 0.6), name, "end"))
        inside.append(text(left + side * (i + 0.5), top - 8, classes[i][: side // 8], "middle"))
        for j, count in enumerate(counts):
            share, x, y = count / (sum(counts) or 1), left + side * j, top + side * i
            inside.append(f'<rect x="{x}" y="{y}" width="{side}" height="{side}" class="axis"/>')
            inside.append(f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{COLOURS[0]}" fill-opacity="{0.6 * share:.3f}"/>')
            inside.append(text(x + side / 2, y + side * 0.6, count, "middle"))
    n = side * len(classes)
    return svg(max(left + n + 20, 480), top + n + 20, "Confusion matrix", inside)


def bars(file, title):
    rows = [line.split("\t") for line in pathlib.Path(file).read_text().splitlines()]
    rows = [(name, float(number)) for name, number in rows]
    most = max(number for _, number in rows) or 1
    inside = []
    for i, (name, number) in enumerate(rows):
        y, wide = 44 + 28 * i, 380 * number / most
        inside.append(text(232, y + 15, name, "end"))
        inside.append(f'<rect x="240" y="{y}" width="{wide:.1f}" height="20" fill="{COLOURS[0]}"/>')
        inside.append(text(246 + wide, y + 15, f"{number:.3g}"))
    return svg(720, 60 + 28 * len(rows), title, inside)


def predictions(file, bundle, n=40):
    """A page of the first wrong answers, then of right ones, each with its picture."""
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    rows.sort(key=lambda row: row["label"] == row["prediction"])
    parts = []
    for row in rows[:n]:
        stored = subprocess.run([os.environ.get("GULAR_BIN", "gular"), "inspect", bundle, "--extract", row["key"]], check=True, stdout=subprocess.PIPE).stdout
        mark = "" if row["label"] == row["prediction"] else " class=wrong"
        sure = row.get(f"probability_{row['prediction']}")
        said = html.escape(row["prediction"]) + (f" {float(sure):.0%}" if sure else "")
        parts.append(f'<figure{mark}><img src="data:;base64,{base64.b64encode(stored).decode()}"><figcaption>{said}<br><small>{html.escape(row["key"])}</small></figcaption></figure>')
    style = "body{font-family:system-ui,sans-serif;margin:2em}figure{display:inline-block;margin:.5em;text-align:center}img{width:128px}.wrong figcaption{color:#c92a2a}"
    return f'<!doctype html>\n<meta charset="utf-8">\n<title>Predictions</title>\n<style>{style}</style>\n<h1>{len(rows)} predictions, wrong ones first</h1>\n' + "\n".join(parts) + "\n"


def main():
    made = {"curves": curves, "confusion": confusion, "bars": bars, "predictions": predictions}
    if len(sys.argv) < 4 or sys.argv[1] not in made:
        raise SystemExit(__doc__)
    kind, out, *rest = sys.argv[1:]
    pathlib.Path(out).write_text(made[kind](*rest))
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
