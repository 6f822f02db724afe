"""A study opens in optuna-dashboard."""

import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest


class Silent(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""


@pytest.mark.parametrize("place", [None, "journal"])
def test_a_study_opens_in_the_dashboard(place, tune, tmp_path):
    dashboard = pytest.importorskip("optuna_dashboard", reason="pip install 'verihop[tune]'")
    journal = tmp_path / "study.journal"
    found = tune(trials=3, study="seen", storage=f"journal:{journal}" if place else None)
    from optimizers.tuning.storages import open_storage

    storage = open_storage(f"journal:{journal}" if place else str(tmp_path / "s" / "study.db"))
    with make_server("127.0.0.1", 0, dashboard.wsgi(storage), handler_class=Silent) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", trust_env=False) as client:
                assert "<title>" in client.get("/dashboard/").text
                studies = client.get("/api/studies").json()["study_summaries"]
                assert [study["study_name"] for study in studies] == ["seen"]
                number = studies[0]["study_id"]
                shown = client.get(f"/api/studies/{number}", params={"after": 0}).json()
        finally:
            server.shutdown()
            thread.join()
    assert [trial["values"] for trial in shown["trials"]] == [[trial.score()] for trial in found.findings.trials]
    assert [trial["params"][0]["name"] for trial in shown["trials"]] == ["k"] * 3
    attributes = {each["key"]: each["value"] for each in shown["trials"][0]["user_attrs"]}
    assert attributes["baseline"] == "True"
