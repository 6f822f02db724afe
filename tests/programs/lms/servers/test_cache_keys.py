"""Settings that change what is sent to a server change the key of the cached reply."""

from typing import Any

from programs.lms.calls.metered import metered_lm
from programs.lms.calls.reply_cache import use_reply_cache
from programs.lms.servers.chat import ChatEngine
from tests.programs.lms.servers import standin


def test_a_reply_in_another_dialect_is_not_taken_from_the_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("VERIHOP_CACHE_DIR", str(tmp_path))
    use_reply_cache()
    server = standin.StandIn(standin.Quirks())

    def sent(dialect: str) -> list[Any]:
        """Return what each request for a reply says of thinking; none if the reply is cached."""
        engine = ChatEngine(server.api_base, standin.MODEL, dialect=dialect)
        server.seen.clear()
        metered_lm("server-0/m", engine=engine)("Is water wet?", reasoning_effort="low")
        engine.close()
        return [body.get("chat_template_kwargs") for body in server.seen]

    try:
        assert sent("openai") == [None]
        assert sent("vllm") == [{"enable_thinking": True, "thinking": True}]
        assert sent("vllm") == []
    finally:
        server.close()
