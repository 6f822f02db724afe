"""The words by which roles are recognised: of a field's name, of its description, and of the instruction.

The words are those in which multi-hop strategies are usually written, ours among them. A description speaks for the
role whose longest expression it holds. Of two roles that match equally well the first in the table is taken.
"""

import re
from dataclasses import dataclass

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class Role:
    """One role and how to recognise it.

    Args:
        role: Its name.
        names: Matches names of fields.
        notes: Matches descriptions of fields.
        nouns: Matches instructions; used only for a field whose name and description say nothing.
        forms: For an input the shapes of its text, for an output the kinds of its value, that the role can have.
    """

    role: str
    names: re.Pattern[str]
    notes: re.Pattern[str] = _NEVER
    nouns: re.Pattern[str] = _NEVER
    forms: frozenset[str] = frozenset()


def _role(role: str, forms: str, names: str, notes: str = "", nouns: str = "") -> Role:
    def words(pattern: str) -> re.Pattern[str]:
        return re.compile(pattern, re.IGNORECASE) if pattern else _NEVER

    return Role(role, words(names), words(notes), words(nouns), frozenset(forms.split()))


INPUT_ROLES: tuple[Role, ...] = (
    _role("limit", "number", r"limit|max|at_most|count|number", r"at most|up to|no more than|maximum|limit"),
    _role(
        "history",
        "list text short empty",
        r"hops?$|histor|trajector|scratchpad|transcript|chain|pairs|steps|solved|settled|resolved|so_far|previous|trace",
        r"so far|settled|solved|earlier (?:steps|questions)|in order|oldest|chronolog",
    ),
    _role(
        "reasoning",
        "list text short empty",
        r"reason|rationale|thought|explanation|thinking|attempt|analysis|working",
        r"\battempt|reasoning|rationale|thoughts?\b",
        r"\breasoning\b|\brationale\b|\bthoughts?\b",
    ),
    _role(
        "query",
        "question text short empty",
        r"quer(?:y|ies)|search|keywords|look|terms|sought|wanted",
        r"look(?:ed|ing)? for|search",
    ),
    _role(
        "sub_question",
        "question empty",
        r"sub_?(?:question|problem|task|goal)|follow_?up|next_step|current|step",
        r"\b(?:asked|answered) (?:now|next)|to answer (?:now|next)|sub-?question|current",
    ),
    _role(
        "entities",
        "list empty",
        r"entit|names|subjects|topics|mentions|people",
        r"\bentities\b|\bnames\b",
        r"\bentities\b",
    ),
    _role(
        "passages",
        "list text empty",
        r"passage|context|document|references?$|paragraph|article|retriev|results$|sources?$|snippets|excerpts|background",
        r"\bpassages? found|retrieved|documents?\b|found so far",
    ),
    _role(
        "listed",
        "list empty",
        r"inference|fact|deduction|finding|notes|insight|knowledge|observation|claims|conclusions|statements",
        r"inferred|claims|facts",
        r"infer",
    ),
    _role(
        "source",
        "text short empty",
        r"evidence|quote|snippet|support|source|excerpt|extract|premise|material|text$",
        r"\bevidence\b|\bquote",
        r"\bevidence\b|\bpremise\b|\bexcerpt\b",
    ),
    _role(
        "claim",
        "text short empty",
        r"claim|statement|assertion|proposition|hypothesis|sentence|allegation",
        r"\bclaim\b|\bstatement\b",
        r"\bclaim\b|\bstatement\b|\bassertion\b|\bsentence\b",
    ),
    _role(
        "response",
        "text short empty",
        r"response|report|essay|write_?up|long_|paragraph",
        r"(?:response|report) to (?:be )?(?:examine|check|verif|assess|judge|review|evaluat)\w*|brackets",
        r"\bresponse\b",
    ),
    _role(
        "reply",
        "text short empty",
        r"repl(?:y|ies)|utterance|message|reaction|said",
        r"\breply\b",
        r"\breply\b|cannot be answered|commit",
    ),
    _role(
        "answer",
        "list text short number empty",
        r"answer|draft|candidate|prediction|guess|solution|result|conclusion|output|tentative",
        r"\banswer|\bdraft\b|\b(?:is|are|be) (?:right|correct)|(?:right|correct) ones?\b",
        r"\banswers?\b|\bdraft\b",
    ),
    _role(
        "question",
        "question text short empty",
        r"question|problem|inquiry|task|request|goal|prompt|topic|\bask",
        r"original|main question|overall|the question\b",
    ),
)

OUTPUT_ROLES: tuple[Role, ...] = (
    _role(
        "evidence",
        "text",
        r"evidence|quote|citation|cited|excerpt|snippet|support|source|proof|grounds|extract",
        r"deciding (?:words|sentence)|copied|verbatim|word for word|\bquot",
        r"\bquote\b|\bcopy the\b",
    ),
    _role(
        "revision",
        "text",
        r"revis|rewrit|reword|rephras|reformul|(?:new|better|improved)_(?:question|query)",
        r"(?:better|new|improved) question|eas(?:y|ier) to (?:search|find)|question mark|\bends? (?:with|in) \?"
        r"|rewritten|reworded|revised",
        r"\brewrite\b|\brevise\b|\breword\b|\brephrase\b|\breformulate\b",
    ),
    _role("judgement", "text", r"judge?ment|verdict|ruling"),
    _role(
        "entities",
        "list text",
        r"entit|names|subjects|topics|mentions|people",
        r"\bnames (?:in|of|from|as)\b|\bentities\b",
        r"\bentities\b",
    ),
    _role(
        "next_sentence",
        "text",
        r"next_(?:sentence|thought|line)|continuation",
        r"next (?:sentence|thought)|continues?\b",
        r"next (?:sentence|thought)|\bcontinue\b",
    ),
    _role(
        "reasoning",
        "text list",
        r"reason|rationale|thought|explanation|thinking|analysis|working",
        r"step by step|\bthink|reasoning",
    ),
    _role(
        "inferences",
        "list text",
        r"inference|deduction|finding|notes|claims|facts|insight|takeaway|statements",
        r"sentences? each|each one sentence|follows",
        r"\binfer|what follows",
    ),
    _role(
        "missing",
        "text list",
        r"missing|lack|\bgaps?\b",
        r"(?:passages|they) lack|(?:what is|is still) missing|\bno (?:passage|document|source|reference)s? \w+",
    ),
    _role(
        "argument",
        "text",
        r"argument|args|input|param|operand|target",
        r"\bargument\b|\bto (?:search|look)\b.*\bor\b",
    ),
    _role(
        "query",
        "text list",
        r"quer(?:y|ies)|search|keywords|look_?up|terms",
        r"missing fact|look(?:ing)? for|\bsearch|\bquer",
        r"search quer|\bsearch for\b",
    ),
    _role(
        "sub_question",
        "text list",
        r"question|follow_?up|next_step|sub_?(?:problem|task|goal)|steps?$|plan",
        r"pronouns?\b|sub-?question|follow-?up|\b(?:one|a single) fact\b|simpler question|single fact",
        r"sub-?question|follow-?up|simpler question|decompose|break .* down",
    ),
    _role("chain", "list text", r"chain|hops|pairs", r"each .* with its answer|question and answer pairs"),
    _role(
        "response",
        "text",
        r"response|report|essay|write_?up|long_|full_|paragraph",
        r"(?:full|complete|whole) sentences|brackets|paragraphs?\b",
        r"full sentences",
    ),
    _role(
        "passage",
        "text list",
        r"passage|document|background|article|context",
        r"background|encyclop|passage",
        r"background (?:passage|document)|write a (?:passage|document|paragraph)",
    ),
    _role("action", "text", r"action|tool|\bmove|decision", r"\w\[\w*\]|one of the actions"),
    _role(
        "answer",
        "text list",
        r"answer|conclusion|result|draft|guess|solution|final|outcome|output",
        r"\bphrase\b|\ba (?:name|date|number)\b|\banswer\b",
        r"\banswer\b|\bconclude\b",
    ),
    _role(
        "sufficient",
        "bool",
        r"suffic|enough|adequate|answerable|covered",
        r"\b(?:everything|all)(?: that)?(?: is)? (?:need|requir)\w*|suffic|enough",
    ),
    _role(
        "unfinished",
        "bool",
        r"more|continue|further|remain|unresolved|(?:steps?|questions?|hops?)_needed|needs?_(?:another|step|question|hop)",
        r"still needed|more .*needed|remain",
    ),
    _role(
        "finished",
        "bool",
        r"finish|done|(?<!in)complete|settled|stop|ready|final|resolved",
        r"\bdecides? (?:the|it)\b|finished|settled|nothing .* left|all .* answered",
    ),
)
