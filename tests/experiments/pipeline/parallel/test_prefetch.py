import threading

from experiments.pipeline.parallel.thread_pool import BATCH, Prefetch


class Retriever:
    """Records what it is given, and may fail."""

    def __init__(self, error=None):
        self.batches, self.got, self.error = [], threading.Semaphore(0), error

    def prefetch(self, queries):
        self.batches.append(list(queries))
        self.got.release()
        if self.error:
            raise self.error


def test_questions_are_embedded_in_batches_in_order_without_those_that_have_started():
    retriever = Retriever()
    prefetch = Prefetch(retriever)
    questions = [f"q{number}" for number in range(BATCH + 2)]
    prefetch.add(questions[0])
    prefetch.started("q0")
    for question in questions[1:]:
        prefetch.add(question)
    assert retriever.got.acquire(timeout=20)
    assert retriever.batches == [questions[1 : BATCH + 1]]
    prefetch.close()
    prefetch.add("late")
    assert len(retriever.batches) == 1


def test_a_failure_is_left_to_the_retrieval_of_the_question():
    retriever = Retriever(OSError("no model"))
    prefetch = Prefetch(retriever)
    for number in range(BATCH):
        prefetch.add(str(number))
    assert retriever.got.acquire(timeout=20)
    for number in range(BATCH):
        prefetch.add(f"later {number}")
    prefetch.close()
    assert len(retriever.batches) == 1


def test_a_retriever_that_embeds_nothing_needs_no_thread():
    prefetch = Prefetch(object())
    prefetch.add("q")
    prefetch.started("q")
    assert prefetch._thread is None


def test_closing_waits_for_the_batch_in_progress():
    begun, go_on, ended = threading.Event(), threading.Event(), []

    class Slow:
        def prefetch(self, queries):
            begun.set()
            go_on.wait(10)
            ended.append(len(queries))

    prefetch = Prefetch(Slow())
    for number in range(BATCH):
        prefetch.add(f"question {number}")
    assert begun.wait(10)
    closing = threading.Thread(target=prefetch.close)
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()  # an exit of the process now would end a library's thread while it computes
    go_on.set()
    closing.join(10)
    assert ended == [BATCH]
