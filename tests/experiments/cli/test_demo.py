"""`verihop demo` with the simulated LM."""

import json

from programs.lms.calls import transport
from signatures.common.errors import UserError


def test_a_quiet_demo_shows_no_progress(verihop, tmp_path):
    code, out, err = verihop("demo", "--lm", "simulated", "--quiet", "--json", "--out", tmp_path / "demo")
    assert code == 0
    assert json.loads(out)["comparison"]["questions"] == 20
    assert err == "The demo corpus is about an invented archipelago, so that no LM knows the answers from training.\n"


def test_a_demo_on_the_simulated_lm_gains_nothing_and_says_why(verihop, tmp_path):
    code, out, err = verihop("demo", "--lm", "simulated", "--json", "--out", tmp_path / "demo")
    assert code == 0
    assert "The simulated LM reads no demonstrations, so compilation changes no score" in err
    comparison = json.loads(out)["comparison"]
    assert all(of["after"]["against_first"]["identical"] for of in comparison["metrics"].values())


def test_a_demo_has_connections_for_its_threads(verihop, tmp_path, monkeypatch):
    def connections(out, lm, **settings):
        raise UserError(f"{lm.connections} connections")

    monkeypatch.setattr(transport, "_open_files", lambda: None)
    monkeypatch.setattr("experiments.pipeline.demo.run_demo", connections)
    _, _, err = verihop("demo", "--lm", "simulated", "--threads", 50, "--out", tmp_path / "demo")
    assert f"{50 * transport.WIDTH} connections" in err
