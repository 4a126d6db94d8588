"""Draws loss.csv as loss.svg: the answers' loss on a logarithmic axis, and the
share of answer tokens that greedy decoding got wrong.

    python curve.py ../loss.csv ../loss.svg
"""

import csv
import math
import sys

WIDTH, HEIGHT, LEFT, TOP = 640, 300, 60, 20
DECADES = range(-5, 2)  # from 1e-5 to 10 nats


def path(points, colour):
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def text(x, y, s, anchor="middle", colour="#444"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{s}</text>'


def draw(rows):
    steps = int(rows[-1]["step"])
    lowest, highest = DECADES[0], DECADES[-1]

    def x(step):
        return LEFT + int(step) / steps * WIDTH

    def y(value):
        log = math.log10(max(value, 10.0**lowest))
        return TOP + (highest - log) / (highest - lowest) * HEIGHT

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 80} {HEIGHT + 60}" font-family="sans-serif" font-size="11">',
        f'<rect width="{WIDTH + 80}" height="{HEIGHT + 60}" fill="#fff"/>',
    ]
    for d in DECADES:
        out.append(f'<line x1="{LEFT}" x2="{LEFT + WIDTH}" y1="{y(10**d):.1f}" y2="{y(10**d):.1f}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, y(10.0**d) + 4, f"1e{d}", "end"))
    for i in range(6):
        out.append(text(x(steps * i / 5), TOP + HEIGHT + 16, f"{steps * i // 5}"))
    out.append(text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, "training step"))
    out.append(path([(x(r["step"]), y(float(r["answer_loss_nats"]))) for r in rows], "#1f5fa8"))
    out.append(path([(x(r["step"]), y(float(r["wrong_tokens_share"]))) for r in rows], "#c0622a"))
    out.append(text(LEFT + WIDTH - 4, TOP + 14, "loss of answer tokens (nats)", "end", "#1f5fa8"))
    out.append(text(LEFT + WIDTH - 4, TOP + 30, "share of answer tokens wrong", "end", "#c0622a"))
    return "\n".join([*out, "</svg>", ""])


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(draw(rows))


if __name__ == "__main__":
    main()
