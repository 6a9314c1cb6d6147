"""Draws results as SVG, by hand: bars, a logarithmic axis per unit, a column per worker count.

One colour for weft and one for everybody else, names beside the bars instead of a legend, and the
reader's own light or dark scheme.
"""

import math
import textwrap
from html import escape

NAME, PLOT, VALUE = 96, 240, 60  # widths within a column
GAP = 28  # between columns
MARGIN = 16
BAR, BETWEEN = 11, 3
TITLE = 20  # above the bars of a metric
HEAD = 60  # above the metrics of a unit

STYLE = """
text { font: 11px system-ui, sans-serif; fill: #1f2933; }
.head { font-weight: 600; font-size: 13px; }
.title { font-weight: 600; }
.axis { fill: #52606d; font-size: 10px; }
.grid { stroke: #d3dae1; stroke-width: 1; }
.weft { fill: #0b7285; }
.peer { fill: #9aa5b1; }
.ours { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; }
  .axis { fill: #9aa5b1; }
  .grid { stroke: #3e4c59; }
  .weft { fill: #3bc9db; }
  .peer { fill: #7b8794; }
}
""".strip()

UNITS = {
    "ns": "time, ns",
    "ms": "time, ms",
    "us": "time, us",
    "B": "memory, bytes",
    "% kept": "heartbeats kept, %",
    "%": "more than alone, %",
    "1/s": "per second",
    "req/s": "requests per second",
    "us/req": "CPU of the server per request, us",
    "% busy": "how busy a core was, %",
    "steps/s": "simulated steps per second",
    "runs/s": "simulated runs per second",
}


def shown(value):
    if value >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 99.5 else f"{value:.3g}"


class Axis:
    """From the power of ten below the least value to the one above the greatest."""

    def __init__(self, values):
        positive = [v for v in values if v > 0] or [1]
        # A bar of the least value is still to be seen.
        self.low = math.floor(math.log10(min(positive) * 0.8))
        self.high = max(math.ceil(math.log10(max(positive))), self.low + 1)

    def width(self, value):
        if value <= 0:
            return 0.0
        return max(1.0, PLOT * (math.log10(value) - self.low) / (self.high - self.low))

    def ticks(self):
        for power in range(self.low, self.high + 1):
            yield PLOT * (power - self.low) / (self.high - self.low), tick(power)


def tick(power):
    if power < 0:
        return f"{10.0 ** power:g}"
    for size, letter in ((9, "G"), (6, "M"), (3, "k")):
        if power >= size:
            return f"{10 ** (power - size)}{letter}"
    return str(10 ** power)


class Drawing:
    def __init__(self):
        self.parts = []

    def text(self, x, y, words, style="", anchor="start"):
        # A processor may have a long name; in the file a line has 100 columns, for readers a space.
        lines = "\n".join(textwrap.wrap(words, 92, break_on_hyphens=False))
        self.parts.append(
            f'<text x="{x:.0f}" y="{y:.0f}" class="{style}" text-anchor="{anchor}">'
            f"\n{escape(lines)}</text>"
        )

    def bar(self, x, y, width, style, words):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.0f}" width="{width:.1f}" height="{BAR}" class="{style}">'
            f"\n<title>{escape(words)}</title></rect>"
        )

    def line(self, x, top, bottom):
        self.parts.append(
            f'<line x1="{x:.1f}" y1="{top:.0f}" x2="{x:.1f}" y2="{bottom:.0f}" class="grid"/>'
        )


def in_order(seen, wanted):
    return [item for item in wanted if item in seen]


def draw_metric(drawing, row, programs, axis, x, y):
    """The bars of one metric with one number of workers."""
    for program in programs:
        of = row["programs"].get(program)
        style = "weft" if program.startswith("weft") else "peer"
        if of:
            name = "ours" if program.startswith("weft") else ""
            width = axis.width(of["best"])
            words = f"{program}: {shown(of['best'])} {row['unit']}"
            drawing.text(x + NAME - 6, y + BAR - 2, program, name, "end")
            if width > 0:  # a logarithmic axis has no place for zero and less
                drawing.bar(x + NAME, y, width, style, words)
            drawing.text(x + NAME + width + 4, y + BAR - 2, shown(of["best"]), name)
        y += BAR + BETWEEN


def draw_unit(drawing, unit, rows, results, counts, top):
    """All metrics of one unit; returns where the next thing may begin."""
    axis = Axis([of["best"] for row in rows for of in row["programs"].values()])
    drawing.text(MARGIN, top + 14, UNITS.get(unit, unit) + direction(rows), "head")
    column = NAME + PLOT + VALUE + GAP
    y = top + HEAD
    metrics = list(dict.fromkeys((row["metric"], row["title"]) for row in rows))
    first = len(drawing.parts)
    for metric, title in metrics:
        of_metric = {row["workers"]: row for row in rows if row["metric"] == metric}
        seen = {p for row in of_metric.values() for p in row["programs"]}
        programs = in_order(seen, results["programs"])
        drawing.text(MARGIN, y + 12, title, "title")
        for i, workers in enumerate(counts):
            if workers in of_metric:
                draw_metric(drawing, of_metric[workers], programs, axis, MARGIN + i * column,
                            y + TITLE)
        y += TITLE + len(programs) * (BAR + BETWEEN) + 6
    grid = Drawing()  # behind the bars
    for i, workers in enumerate(counts):
        x = MARGIN + i * column + NAME
        grid.text(x, top + 32, f"{workers} worker" + ("" if workers == 1 else "s"), "head")
        for at, label in axis.ticks():
            grid.line(x + at, top + HEAD - 8, y)
            grid.text(x + at, top + HEAD - 12, label, "axis", "middle")
    drawing.parts[first:first] = grid.parts
    return y + 12


def direction(rows):
    return " (more is better)" if rows[0]["better"] == "more" else ""


def svg(results):
    rows = results["rows"]
    counts = sorted({row["workers"] for row in rows})
    drawing = Drawing()
    y = MARGIN
    for unit in dict.fromkeys(row["unit"] for row in rows):
        of_unit = [row for row in rows if row["unit"] == unit]
        y = draw_unit(drawing, unit, of_unit, results, counts, y)
    here = results["machine"]
    drawing.text(MARGIN, y + 4, f"passes: {results['passes']}, the best; {results['date']}; "
                 f"{here['cpu']}, {here['kernel']}; logarithmic", "axis")
    width = max(1, len(counts)) * (NAME + PLOT + VALUE + GAP) - GAP + 2 * MARGIN
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"\n'
        f'  width="{width}" height="{y + MARGIN:.0f}" viewBox="0 0 {width} {y + MARGIN:.0f}">\n'
        "<title>weft and its peers</title>\n"
        f"<style>\n{STYLE}\n</style>\n"
    )
    return head + "\n".join(drawing.parts) + "\n</svg>\n"
