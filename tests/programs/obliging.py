"""A reply that serves every program: all fields of their predictors, with words from the question."""

from programs.parts.verification import SCORES


def obliging(system, user):
    """Reply to whatever a program asks."""
    if "one word, yes or no" in user:
        return "yes"
    question = user.split("[[ ## question ## ]]\n")[-1].split("\n")[0]
    return {
        "reasoning": "because",
        "finished": "1. " in user,
        "sub_question": f"Who of {question}",
        "sentence": f"Ansa Merrow lives where {question}",
        "complexity": "complex",
        "query": f"harbour {question}",
        "queries": [f"harbour {question}"],
        "missing": "",
        "sufficient": True,
        "response": f"Ansa Merrow of {question} [1].",
        "chain": [f"Who of {question} -> unknown"],
        "evidence": "The harbour master of Quillon is Ansa Merrow.",
        "document": "The harbour master of Quillon is Ansa Merrow.",
        "answer": f"Ansa Merrow of {question}",
        **dict.fromkeys(SCORES, 0.5),
        "entities": ["Ansa Merrow"],
        "inferences": ["Ansa Merrow is a harbour master."],
        "judgement": "false",
        "feedback": "",
        "correct": True,
        "revised_question": f"Where lies {question}?",
        "thought": "A harbour master is wanted.",
        "action": "finish" if "- Result 1: " in user else "search",
        "argument": f"Ansa Merrow of {question}",
        "information": "The harbour master of Quillon is Ansa Merrow.",
    }
