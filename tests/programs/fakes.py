"""Stand-ins that tests of programs share: retrievers, similarities, and what a prompt or a trace shows."""

import os

import dspy
import pytest

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")


class Fake:
    """A retriever whose `find(query, k)` a test defines; remembers what was asked, as pairs of query and k."""

    fingerprint = "fake"

    def __init__(self):
        self.asked = []

    @property
    def queries(self):
        return [query for query, _ in self.asked]

    def find(self, query, k):
        return []

    def __call__(self, query, k):
        self.asked.append((query, k))
        return self.find(query, k)[:k]

    def many(self, queries, k):
        return [self(query, k) for query in queries]

    def __deepcopy__(self, memo):
        return self


class Similar:
    """A similarity that compares two texts by a function; remembers what was asked."""

    def __init__(self, compare, fingerprint="similar"):
        self.compare, self.fingerprint, self.asked = compare, fingerprint, []

    def __call__(self, left, right):
        self.asked.append((list(left), list(right)))
        return [[self.compare(one, other) for other in right] for one in left]

    def __deepcopy__(self, memo):
        return self


def traced(program, *arguments, **inputs):
    """Return what a program returns, and the entries that it leaves in the trace."""
    with dspy.context(trace=[]):
        return program(*arguments, **inputs), list(dspy.settings.trace)


def block(prompt, name):
    """Return the text of an input field as a prompt shows it."""
    return prompt.partition(f"[[ ## {name} ## ]]\n")[2].partition("\n\n")[0]


def in_forks(work, count=2):
    """Run `work` in forks, which exit with what it returns; return the exit codes, 255 for one that failed."""
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            code = 255
            try:
                code = work()
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


class Supported(dspy.Signature):
    """Does the passage support the claim?"""

    claim: str = dspy.InputField()
    supported: bool = dspy.OutputField()


def step(sub_question):
    """Return the reply of a decomposition that asks a sub-question."""
    return {"finished": False, "sub_question": sub_question, "answer": ""}


END = {"finished": True, "sub_question": "", "answer": "the end"}


def writing(*steps, document, answer="Ansa Merrow"):
    """Reply as an LM that takes the steps of a decomposition in order and writes `document(question)`, "?" as it is."""
    left = iter(steps)

    def reply(system, user):
        if "Take the next step" in system:
            return next(left)
        if "background document" in system:
            written = document(user.split("[[ ## question ## ]]\n")[-1].split("\n")[0])
            return written if written == "?" else {"document": written}
        if "from the settled hops" in system:
            return {"answer": "concluded"}
        return {"answer": answer} if "what the passages say" in system else {"answer": "recalled"}

    return reply
