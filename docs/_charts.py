"""Draw the pictures of the pages from the laws that the program draws noise from.

``python docs/_charts.py`` rewrites docs/img. It needs the extra ``charts``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

import vl_convert

from discreet import lab, noise
from discreet import mechanisms as m
from discreet import privacy as p

IMAGES: Final = Path(__file__).parent / "img"
BLUE, ORANGE, GREY, INK = "#0072b2", "#d55e00", "#b8b8b8", "#333333"
"""Colours that colour-blind people tell apart (Okabe and Ito)."""


def draw(name: str, layers: list[dict[str, Any]], title: str) -> None:
    """Write one picture."""
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": 520,
        "height": 240,
        "background": "white",
        "title": {"text": title, "fontSize": 13, "anchor": "start", "fontWeight": "normal"},
        "config": {
            "font": "sans-serif",
            "axis": {
                "grid": False,
                "labelColor": INK,
                "titleColor": INK,
                "titleFontWeight": "normal",
            },
            "legend": {"title": None, "orient": "top-right", "labelColor": INK},
            "view": {"stroke": None},
        },
        "layer": layers,
    }
    IMAGES.mkdir(exist_ok=True)
    (IMAGES / f"{name}.svg").write_text(vl_convert.vegalite_to_svg(spec), "utf-8")


def _axis(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, **more}


def _colour(names: list[str], colours: list[str]) -> dict[str, Any]:
    return {"field": "what", "type": "nominal", "scale": {"domain": names, "range": colours}}


def two_laws() -> None:
    """Counts of 10 and 11 at ε = 0.5, and the band that the second must stay in."""
    law, factor = noise.DiscreteLaplace(2), math.exp(0.5)
    places = range(2, 20)
    band = [
        {"k": k, "low": law.pmf(k - 10) / factor, "high": law.pmf(k - 10) * factor} for k in places
    ]
    names = ["10 people", "11 people"]
    rows = [
        {"k": k, "p": law.pmf(k - centre), "what": name}
        for centre, name in zip((10, 11), names, strict=True)
        for k in places
    ]
    x = _axis("k", "published count", scale={"domain": [2, 19]})
    draw(
        "two_laws",
        [
            {
                "data": {"values": band},
                "mark": {"type": "area", "color": GREY, "opacity": 0.45},
                "encoding": {
                    "x": x,
                    "y": _axis("low", "probability"),
                    "y2": {"field": "high"},
                },
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "point": {"size": 40, "filled": True}},
                "encoding": {
                    "x": x,
                    "y": _axis("p", "probability"),
                    "color": _colour(names, [BLUE, ORANGE]),
                },
            },
        ],
        "ε = 0.5: the law with one person more stays in the grey band, e^−ε to e^ε times the other",
    )


def delta_area() -> None:
    """Gaussian noise: what sticks out above e^ε times the other law is δ."""
    sigma, epsilon = 1.0, 1.0
    factor, scale = math.exp(epsilon), 1 / math.sqrt(2 * math.pi)
    places = [i / 50 for i in range(-150, 226)]

    def density(x: float, centre: float) -> float:
        return scale * math.exp(-((x - centre) ** 2) / (2 * sigma**2))

    delta = p.Gaussian(1 / sigma).delta(epsilon)
    names = ["without the person", "with the person", "e^ε × without"]
    rows = [
        {"x": x, "p": value, "what": name}
        for x in places
        for name, value in zip(
            names, (density(x, 0), density(x, 1), factor * density(x, 0)), strict=True
        )
    ]
    area = [
        {"x": x, "low": factor * density(x, 0), "high": density(x, 1)}
        for x in places
        if density(x, 1) >= factor * density(x, 0)
    ]
    x = _axis("x", "published value", scale={"domain": [-3, 4.5], "nice": False})
    y = {"scale": {"domain": [0, 0.5]}}
    draw(
        "delta_area",
        [
            {
                "data": {"values": area},
                "mark": {"type": "area", "color": ORANGE, "opacity": 0.35},
                "encoding": {"x": x, "y": _axis("low", "density", **y), "y2": {"field": "high"}},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "strokeWidth": 2, "clip": True},
                "encoding": {
                    "x": x,
                    "y": _axis("p", "density", **y),
                    "color": _colour(names, [BLUE, ORANGE, GREY]),
                },
            },
        ],
        f"Gaussian noise, ε = 1: the shaded area is δ = {delta:.3f}",
    )


def randomised_response() -> None:
    """Error of a share from 1000 answers, against ε."""
    rows = []
    for hundredth in range(5, 100):
        coin = m.RandomizedResponse(p=f"0.{hundredth:02}")
        low, high = coin.estimate([1, 0] * 500).interval(0.95)
        rows.append({"e": coin.loss.epsilon(), "p": hundredth / 100, "w": float(high - low) / 2})
    sampling = 1.96 * math.sqrt(0.25 / 1000)
    draw(
        "randomised_response",
        [
            {
                "data": {"values": [{"w": sampling}]},
                "mark": {"type": "rule", "color": GREY, "strokeDash": [4, 3], "strokeWidth": 2},
                "encoding": {"y": _axis("w", "± of the share at 95 %")},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "line", "color": BLUE, "strokeWidth": 2},
                "encoding": {
                    "x": _axis("e", "ε"),
                    "y": _axis("w", "± of the share at 95 %"),
                },
            },
            {
                "data": {"values": [r for r in rows if r["p"] in (0.1, 0.25, 0.5, 0.75, 0.9)]},
                "layer": [
                    {"mark": {"type": "point", "filled": True, "color": BLUE, "size": 50}},
                    {
                        "mark": {"type": "text", "dx": 8, "dy": -9, "align": "left", "color": INK},
                        "transform": [{"calculate": "'p = ' + datum.p", "as": "label"}],
                        "encoding": {"text": {"field": "label"}},
                    },
                ],
                "encoding": {"x": _axis("e", "ε"), "y": _axis("w", "± of the share at 95 %")},
            },
        ],
        "Randomised response, 1000 people: dashed, the sampling error that remains without noise",
    )


def social_choice() -> None:
    """Where what accuracy adds meets what privacy costs."""
    rows = []
    for i in range(8, 121):
        e = i / 40
        rows.append({"e": e, "v": 4 / e**3, "what": "one more ε: value of accuracy"})
        rows.append({"e": e, "v": 2 + e, "what": "one more ε: cost in privacy"})
    rows = [r for r in rows if r["v"] <= 12]
    names = ["one more ε: value of accuracy", "one more ε: cost in privacy"]
    draw(
        "social_choice",
        [
            {
                "data": {"values": rows},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {
                    "x": _axis("e", "ε"),
                    "y": _axis("v", "in some common unit"),
                    "color": _colour(names, [BLUE, ORANGE]),
                },
            },
        ],
        "A society's ε lies where both curves meet; where they lie is for people to say",
    )


def lab_compare() -> None:
    """Every attack on every method, as docs/lab.md prints it (a minute or two)."""
    chart = lab.compare(lab.town(), trials=300).chart() | {"background": "white"}
    (IMAGES / "lab_compare.svg").write_text(vl_convert.vegalite_to_svg(chart), "utf-8")


def growth() -> None:
    """Processor time by rows, as ``python -m benchmarks.bench_growth --json`` found it."""
    found = json.loads((Path(__file__).parents[1] / "benchmarks" / "growth.json").read_text())
    names = {"ours": "discreet", "plain": "plain window query"}
    rows = [
        {"rows": one["rows"], "work": one[side]["work"], "what": name,
         "main": (one["each"], one["groups"]) == (3, 1000)}
        for one in found for side, name in names.items()
    ]  # fmt: skip
    encoding = {
        "x": _axis("rows", "rows", scale={"type": "log"}, axis={"format": "~s", "tickCount": 3}),
        "y": _axis("work", "seconds of processor", scale={"type": "log"}, axis={"tickCount": 4}),
        "color": _colour(list(names.values()), [BLUE, ORANGE])
        | {"legend": {"orient": "top-left", "title": None}},
    }
    draw(
        "growth",
        [
            {
                "data": {"values": [r for r in rows if r["main"]]},
                "mark": {"type": "line", "strokeWidth": 1.5},
                "encoding": encoding,
            },
            {
                "data": {"values": rows},
                "mark": {"type": "point", "filled": False, "size": 40},
                "encoding": encoding,
            },
        ],
        "COUNT and SUM by area with a limit per person",
    )


if __name__ == "__main__":
    for picture in (two_laws, delta_area, randomised_response, social_choice, growth, lab_compare):
        picture()
