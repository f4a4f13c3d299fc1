"""A picture is drawn as SVG that stands by itself: it names its figures in words, takes the page's
colours, loads nothing and runs nothing."""

from __future__ import annotations

import sys
from math import ceil, floor, log10
from typing import Any
from xml.etree import ElementTree as ET

from slicewise.lifecycle.history.picture import Picture, number

WIDTH, HEIGHT = 440, 250
"""Units of the picture: at 400 pixels of a screen its letters still have ten."""
COLOURS = tuple(f"var(--c{i})" for i in range(1, 7))
_LABELS = 4
"""Labels below a picture that fit beside each other."""
_WHOLE = 5
"""Up to which a scale has whole numbers."""
_SVG = "http://www.w3.org/2000/svg"
ET.register_namespace("", _SVG)


def drawn(picture: Picture) -> str:
    """The picture as an `svg` element."""
    chart = _chart(picture)
    for name, values in picture.series.items():
        chart.add(name, [_height(picture, value) for value in values])
    # names within the element, and no other of the page: not the library's random ones
    chart.uuid = picture.name
    root: ET.Element = chart.render_tree()
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or _name(child) in ("script", "title", "desc"):
                parent.remove(child)
    title, text = ET.Element("title", id=f"{picture.name}-title"), ET.Element("desc")
    title.text, text.text = picture.title, picture.text
    text.set("id", f"{picture.name}-text")
    root.insert(0, text)
    root.insert(0, title)
    root.set("role", "img")
    root.set("aria-labelledby", f"{picture.name}-title {picture.name}-text")
    return ET.tostring(root, encoding="unicode")


def _library() -> Any:
    """The library that draws, without the hook by which its own plugins would be imported: every
    later import of the process would ask it, and Python warns of its kind."""
    import pygal

    sys.meta_path[:] = [one for one in sys.meta_path if type(one).__module__ != "pygal"]
    return pygal


def _chart(picture: Picture) -> Any:
    pygal = _library()

    style = pygal.style.Style(
        background="transparent",
        plot_background="transparent",
        foreground="var(--ink)",
        foreground_strong="var(--ink)",
        foreground_subtle="var(--rule)",
        guide_stroke_color="var(--rule)",
        major_guide_stroke_color="var(--rule)",
        colors=COLOURS,
        font_family="system-ui, sans-serif",
        label_font_size=12,
        major_label_font_size=12,
        legend_font_size=12,
        opacity="0.9",
        opacity_hover="1",
        guide_stroke_dasharray="2,4",
        major_guide_stroke_dasharray="2,4",
        transition="0s",
    )
    shapes = {"line": pygal.Line, "log": pygal.Line, "stacked": pygal.StackedBar, "bars": pygal.Bar}
    top = max((v for of in picture.series.values() for v in of if v is not None), default=0)
    legends = -(-len(picture.series) // 2)
    chart = shapes[picture.shape](
        style=style,
        width=WIDTH,
        height=HEIGHT + 20 * (legends - 1),
        js=(),
        disable_xml_declaration=True,
        show_legend=len(picture.series) > 1,
        legend_at_bottom=True,
        legend_at_bottom_columns=2,
        legend_box_size=10,
        truncate_legend=26,
        truncate_label=-1,
        margin=8,
        # the library leaves no room for a last row that is not full
        margin_bottom=8 + 20 * (len(picture.series) > 2 and len(picture.series) % 2),
        spacing=8,
        show_minor_x_labels=False,
        include_x_axis=picture.shape != "log",
        allow_interruptions=True,
        dots_size=1.6,
        stroke_style={"width": 1.8},
        value_formatter=number,
        y_labels_major_every=2,
        max_scale=6,
        **({} if top else {"range": (0, 1)}),
    )
    if picture.shape == "log":
        chart.y_labels = [
            {"value": power, "label": number(10.0**power)} for power in _powers(picture)
        ]
    if picture.shape == "stacked" and (whole := _most(picture)) <= _WHOLE and _is_whole(picture):
        chart.y_labels = range(int(whole) + 1)
    chart.x_labels = picture.labels
    every = max(1, -(-len(picture.labels) // _LABELS))
    chart.x_labels_major = picture.labels[every // 2 :: every]
    return chart


def _height(picture: Picture, value: float | None) -> float | None:
    """The height of a value: of a logarithmic scale its power of ten. The library's own joins
    lines where a value is missing."""
    if value is None or picture.shape != "log":
        return value
    return log10(value) if value > 0 else None


def _is_whole(picture: Picture) -> bool:
    """Tells whether its values are counts."""
    return all(v is None or v == int(v) for of in picture.series.values() for v in of)


def _powers(picture: Picture) -> range:
    """Powers of ten that hold all values."""
    heights = [_height(picture, value) for values in picture.series.values() for value in values]
    drawn = [height for height in heights if height is not None] or [0.0]
    return range(floor(min(drawn)), ceil(max(drawn)) + 1)


def _most(picture: Picture) -> float:
    """The highest stack."""
    stacks = zip(*picture.series.values(), strict=True)
    return max((sum(value or 0 for value in stack) for stack in stacks), default=0)


def _name(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]
