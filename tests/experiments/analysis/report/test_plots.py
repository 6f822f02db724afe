import random
import struct

import pytest

from experiments.analysis.report.plots import token_histogram
from signatures.common.errors import UserError


def png_size(path):
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", content[16:24])


def drawn(monkeypatch):
    """Return a list that the axes of every picture drawn from now on are added to."""
    from matplotlib.figure import Figure

    seen = []
    add = Figure.add_subplot
    monkeypatch.setattr(
        Figure, "add_subplot", lambda self, *places, **shared: seen.append(add(self, *places, **shared)) or seen[-1]
    )
    return seen


def test_a_picture_is_written_and_its_path_returned(tmp_path):
    path = tmp_path / "new" / "tokens.png"
    draw = random.Random(3)
    groups = {"made": [draw.randint(900, 4000) for _ in range(60)], "not made": [draw.randint(300, 900)] * 12}

    assert token_histogram(groups, path, title="Tokens") == path
    assert min(png_size(path)) > 400


def test_each_group_is_scaled_to_its_own_size_on_shared_bins(tmp_path, monkeypatch):
    axes = drawn(monkeypatch)

    token_histogram({"a": [1, 2, 3, 100], "b": [100] * 30}, tmp_path / "x.png", title="t")

    first, second = ([patch for patch in panel.patches if hasattr(patch, "get_width")] for panel in axes)
    assert sum(bar.get_height() for bar in first) == pytest.approx(100)
    assert sum(bar.get_height() for bar in second) == pytest.approx(100)
    assert [bar.get_x() for bar in first] == [bar.get_x() for bar in second]
    headings = [panel.get_title(loc="left") for panel in axes]
    assert headings == ["a: n = 4, mean 26, median 2", "b: n = 30, mean 100, median 100"]


@pytest.mark.parametrize("groups", [{"one": [7]}, {"same": [5, 5, 5], "none": []}, {"$x_1$": [0, 10**9]}])
def test_few_equal_and_odd_counts_are_drawn(tmp_path, groups):
    assert min(png_size(token_histogram(groups, tmp_path / "x.png", title="costs $5 or $6"))) > 400


@pytest.mark.parametrize(
    ("groups", "said"), [({}, "no token counts"), ({"a": []}, "no token counts"), ({"a": [-1]}, "-1")]
)
def test_nothing_to_draw_and_negative_counts_are_refused(tmp_path, groups, said):
    with pytest.raises(UserError, match=said):
        token_histogram(groups, tmp_path / "x.png", title="t")
    assert not (tmp_path / "x.png").exists()


def test_settings_of_matplotlib_in_the_working_folder_do_not_count(tmp_path, monkeypatch):
    import matplotlib

    counts = {"a": [1, 2, 3, 100]}
    plain = token_histogram(counts, tmp_path / "plain.png", title="t").read_bytes()
    found = {"text.usetex": True, "axes.facecolor": "black"}  # as a `matplotlibrc` sets them, which runs LaTeX
    with matplotlib.rc_context(found):
        assert token_histogram(counts, tmp_path / "again.png", title="t").read_bytes() == plain


def test_every_label_makes_an_svg_that_is_xml_with_its_text(tmp_path):
    from xml.etree import ElementTree

    path = token_histogram({"x\x01y\ufffe & <z>": [1, 2, 3]}, tmp_path / "x.png", title="costs $5")
    texts = [
        "".join(each.itertext())
        for each in ElementTree.parse(path.with_suffix(".svg")).iter()
        if each.tag.endswith("}text")
    ]
    assert "costs $5" in texts
    assert any(text.startswith(r"x\x01y\ufffe & <z>: n = 3") for text in texts)
