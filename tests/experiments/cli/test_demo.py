"""`verihop demo` with the simulated LM."""

import json


def test_a_quiet_demo_shows_no_progress(verihop, tmp_path):
    code, out, err = verihop("demo", "--lm", "simulated", "--quiet", "--json", "--out", tmp_path / "demo")
    assert code == 0
    assert json.loads(out)["comparison"]["questions"] == 20
    assert err == "The demo corpus is about an invented archipelago, so that no LM knows the answers from training.\n"
