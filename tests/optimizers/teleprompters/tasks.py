"""Examples, a metric, a similarity and a scripted LM for optimizers."""

import json

import dspy
import numpy as np
from dspy.lm15 import Message, Response, TextPart, Usage


def examples(number, start=0, **fields):
    return [
        dspy.Example(id=f"q{n}", question=f"Question {n}?", answer="right", answers=["right"], **fields).with_inputs(
            "question"
        )
        for n in range(start, start + number)
    ]


def exact(example, prediction):
    return float(prediction.answer == "right")


class SharedWords:
    """The similarity of two texts is the share of words that they have in common."""

    fingerprint = "shared-words"

    def __call__(self, left, right):
        bags = [[set(text.lower().strip("?").split()) for text in texts] for texts in (left, right)]
        return np.array([[len(one & other) / len(one | other) for other in bags[1]] for one in bags[0]])

    def __deepcopy__(self, memo):
        return self


class Scripted:
    """An engine that counts; it answers right to even questions, and to all if the prompt shows a demonstration."""

    supports_response_schema = True
    supported_params = ("temperature", "max_tokens", "response_format", "logprobs", "top_logprobs")
    free = True

    def __init__(self):
        self.requests = []

    def __deepcopy__(self, memo):
        return self

    def complete(self, request):
        self.requests.append(request)
        text = request.messages[-1].text
        number = int(text.split("Question ")[1].split("?")[0])
        answer = "right" if number % 2 == 0 or len(request.messages) > 3 else "wrong"
        message = Message.assistant([TextPart(json.dumps({"answer": answer}))])
        usage = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
        return Response(id=None, model=request.model, message=message, finish_reason="stop", usage=usage)
