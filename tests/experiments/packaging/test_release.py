"""The files around the packages: what they name exists, and the commands in them are commands."""

import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from experiments.service import run
from programs.lms.calls.transport import Transport

ROOT = Path(__file__).parents[3]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PRODUCTION = "docs/production.md"


def options_exist(verihop, words: list[str]) -> None:
    """Fail unless `verihop` has a command with each option among the words."""
    code, out, err = verihop(words[0], "--help")
    assert code == 0, err
    for option in words:
        assert not option.startswith("--") or option in out, f"{words[0]} has no {option}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\((?!https?://|#)([^()#\s]+)", (ROOT / page).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_commands_of_the_guide_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"make ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert named
    assert set(named) <= targets


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (project["version"], project["license"])
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_image_serves_by_a_command_that_exists(verihop):
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    last = {line.split()[0]: line.partition(" ")[2] for line in lines if line[:1].isalpha()}
    assert json.loads(last["ENTRYPOINT"]) == ["verihop"]
    options_exist(verihop, json.loads(last["CMD"]))
    copied = [line.split()[1] for line in lines if line.startswith("COPY constraints")]
    assert copied == ["constraints.txt"]
    assert (ROOT / copied[0]).is_file()


def test_the_services_run_commands_that_exist_and_need_a_token(verihop):
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for service in services.values():
        options_exist(verihop, [str(word) for word in service["command"]])
    mounted = re.fullmatch(r"\$\{DOCUMENTS:-\./(.+)\}:(.+):ro", services["documents"]["volumes"][0])
    assert services["documents"]["command"][1] == mounted[2]
    for ignored, line in ((".gitignore", f"/{mounted[1]}/"), (".dockerignore", mounted[1])):
        lines = (ROOT / ignored).read_text().splitlines()
        assert {line, ".env"} <= set(lines)  # the user's, and none of the project's
    assert services["service"]["environment"]["VERIHOP_TOKEN"].startswith("${VERIHOP_TOKEN:?")
    assert all(port.startswith("127.0.0.1:") for port in services["service"]["ports"])
    assert all(service["read_only"] and service["tmpfs"] == ["/tmp"] for service in services.values())
    assert all(service["mem_limit"] for service in services.values())  # else one takes what the whole machine has
    passed = {name for name, value in services["service"]["environment"].items() if value is None}
    assert {"OPENAI_API_KEY", "VERIHOP_LM", "VERIHOP_API_BASE", "VERIHOP_API_KEY_ENV"} < passed


def test_the_units_run_commands_that_exist_and_give_questions_their_time(verihop, tmp_path):
    page = (ROOT / PRODUCTION).read_text()
    commands = [shlex.split(line)[1:] for line in re.findall(r"^ExecStart=(.+)$", page, re.MULTILINE)]
    for words in commands:
        options_exist(verihop, words[words.index("--config") + 2 :] if "--config" in words else words)
    assert [words[0] for words in commands] == ["--config", "sync"]
    assert page.count("\nNoNewPrivileges=true\n") == len(commands)  # also of the unit that reads files of others
    seconds = int(commands[0][commands[0].index("--seconds") + 1])
    assert int(re.search(r"proxy_read_timeout (\d+)s", page)[1]) > seconds
    assert int(re.search(r"TimeoutStopSec=(\d+)", page)[1]) > run._GRACE + run._LAST_WORDS
    settings = re.search(r"```toml\n(.+?)```", page, re.DOTALL)[1]
    assert (Transport().retries + 1) * tomllib.loads(settings)["timeout"] < seconds
    (tmp_path / "verihop.toml").write_text(settings)
    code, _, err = verihop("--config", tmp_path / "verihop.toml", "config")
    assert code == 0, err
    secrets = re.search(r"```sh\n(.+?)```", page, re.DOTALL)[1].splitlines()
    assert all(line.startswith("#") or "#" not in line for line in secrets)  # systemd takes the rest as the value


def test_nginx_limits_the_rate_of_whatever_asks_or_searches():
    page = (ROOT / PRODUCTION).read_text()
    locations = re.findall(r"location (?:= )?(/\S+) \{(.+?)\}", page, re.DOTALL)
    limited = [path.removeprefix("/verihop") for path, body in locations if "limit_req zone=" in body]
    app = re.findall(r'@app\.post\(\s*"(.+?)"', (ROOT / "experiments/service/app.py").read_text())
    assert len(app) > 1
    assert [path for path in app if not path.startswith(tuple(limited))] == []


def test_containers_end_when_they_are_told_to_and_wait_for_the_first_index():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert all(service["init"] for service in services.values())  # a first process ignores SIGTERM, else
    assert int(services["service"]["stop_grace_period"].removesuffix("s")) > run._GRACE + run._LAST_WORDS
    waiting = services["documents"]["healthcheck"]["start_period"]  # after it `up` gives up the service
    assert int(waiting.removesuffix("h")) >= 24


def test_steps_of_the_workflow_are_commands(verihop):
    jobs = yaml.safe_load((ROOT / ".github/workflows/checks.yml").read_text())["jobs"]
    scripts = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert (ROOT / ".ci/run").is_file()
    assert ".ci/run" in scripts
    for script in scripts:
        assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False).stderr == ""
        for line in script.splitlines():
            if line.strip().startswith("verihop "):
                options_exist(verihop, shlex.split(line)[1:])
