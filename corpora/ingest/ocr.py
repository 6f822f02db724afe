"""Text of scanned pages: recognized by RapidOCR, whose models its package brings, on OpenVINO.

It reads Latin and Chinese script. Nothing is fetched.
"""

import functools
from typing import Any

from signatures.common.errors import needing

_SCALE = 2.0  # pixels per point: 144 to the inch
_MOST_PIXELS = 4000  # of the longer side of a page
_LEAST = 0.5  # confidence of a line, from 0 to 1
_SAME_LINE = 0.5  # heights by which boxes of one line may stand apart


def recognized_lines(page: Any) -> list[str]:
    """Return the lines of a page (of pypdfium2) from top to bottom, as they are recognized in its picture.

    Raises:
        UserError: The packages of the extra `ocr` are missing.
    """
    engine = _engine()
    scale = min(_SCALE, _MOST_PIXELS / max(1.0, *page.get_size()))
    result = engine(page.render(scale=scale).to_numpy())
    if result.boxes is None:
        return []
    found = [
        (min(y for _, y in box), min(x for x, _ in box), max(y for _, y in box) - min(y for _, y in box), text)
        for box, text, score in zip(result.boxes, result.txts, result.scores, strict=True)
        if score >= _LEAST and text.strip()
    ]
    lines: list[list[tuple[float, str]]] = []
    last = 0.0
    for top, left, height, text in sorted(found):
        if not lines or top - last > _SAME_LINE * height:
            lines.append([])
            last = top
        lines[-1].append((left, text))
    return [" ".join(text for _, text in sorted(line)) for line in lines]


@functools.cache
def _engine() -> Any:
    with needing("ocr", "Recognizing scanned pages"):
        from rapidocr import EngineType, RapidOCR

        kinds = {f"{part}.engine_type": EngineType.OPENVINO for part in ("Det", "Cls", "Rec")}
        return RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, **kinds})
