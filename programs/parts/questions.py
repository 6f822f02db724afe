"""Whether an LM's text asks something: only a question is worth a search.

Where a prompt asks for a question or nothing, LMs also write "No revision is needed." or "The question is fine as it
is.", in any words. Searching for such a sentence would replace good references by poor ones.

Measured on public data sets: not accepted are 9.1 % of 4,410 queries of Natural Questions, which are search terms that
ask nothing ("songs of that band"), and 0.2 % of 13,238 other questions; accepted are 0.2 % of 1,370 sentences of
Wikipedia.
"""

import re

_WORDS = r"(?:who|whom|whose|what|which|when|where|why|how)(?:['’]?(?:s|d|re|ll))?"
_CHINESE = "[谁誰哪几幾怎吗嗎呢何]|什[么麼]|多少|是否|是不是|有没有|有沒有|能否|可否|多[大高長长遠远久重快]"
_INTERROGATIVE = re.compile(rf"\b{_WORDS}\b|{_CHINESE}", re.IGNORECASE)
_AUXILIARY = (
    "(?:am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must)(?:n['’]t)?"
)
_REQUEST = "(?:name|list|give|tell|identify|find|state|describe|explain|define|complete|show|compare|indicate)"
_FRONT = "(?:(?:in|on|at|from|to|of|for|by|with|under|since|during|after|before|about) )?"
_BEGINS = re.compile(
    rf"\W*(?:{_FRONT}{_WORDS}|{_AUXILIARY}|(?:please )?{_REQUEST})\b|.*(?:{_CHINESE})",
    re.IGNORECASE,
)
# The beginning of a line that ends with a full stop: "When it is right, ..." and "Was answered." are statements.
_BEGINS_BEFORE_STOP = re.compile(
    rf"\W*(?:{_FRONT}(?:who|whom|whose|what|which|how (?:many|much|long|old|far|often|tall|large|big|high|deep))\b"
    rf"|{_FRONT}{_WORDS} {_AUXILIARY}\b|{_REQUEST}\b)|.*(?:{_CHINESE})",
    re.IGNORECASE,
)
# A verb without a subject, and a subject that asks nothing: "Has been answered", "That is how it stands".
_STATES = re.compile(
    rf"\W*(?:{_AUXILIARY} (?:not|been|already|fully|now|still|well|clearly|answered|judged|verified|supported|covered"
    r"|stated|addressed|resolved|settled|accurate|complete|clear|sufficient|adequate)\b"
    r"|(?:that|this|it|they|i|we)(?:['’](?:s|d|m|re|ve|ll))? )",
    re.IGNORECASE,
)
# Words about revising, which a question to search for seldom needs.
_ABOUT_REVISING = re.compile(
    r"\b(?:revis\w*|rewrit\w*|rephras\w*|reword\w*|reformulat\w*|unchanged|chang(?:e|es|ing)|need(?:s|ed)?|required"
    r"|(?:un)?necessary|applicable|n/?a|none|null|nil|nothing|empty|blank|as (?:it )?is|fine|correct(?:ly)?"
    r"|what (?:is|was) (?:asked|wanted|meant|sought|missing)|(?:is|are|seems?) (?:clear|obvious|evident|unambiguous)"
    r"|(?:the|this|an?|original|current|given|same|further|other|new|better) "
    r"(?:question|query|search|response|answer))\b"
    r"|无需|無需|不需|不用|不必|[无無毋][须須]|必要|修[改订訂]|改[写寫动動]|[变變]更|调整|保持|不[变變]|空白|正确|正確"
    r"|[问問][题題]|同上|要改|对的|回答(?:是|已|正|很|得)",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\W*(?:(?:no|none|not|nothing|nil|null|n/?a)\b|[无無不没沒毋])", re.IGNORECASE)
_CLAUSE = re.compile(r"[^.,;:!?。，；：！？—–]*")
_LABEL = re.compile(
    r"\A(?:(?:(?:the|a|here is|here's|revised|rewritten|reworded|improved|new|better|original|search) )*"
    r"(?:question|query|revision)(?: is)?|[新原]?(?:[修改][改订訂写寫][后後]?)?的?[问問][题題])\s*\**[:：][\s*]*",
    re.IGNORECASE,
)
_REMARK = re.compile(r"(?<=[?？])\s*(?:\([^()]*\)|（[^（）]*）)\W*\Z")  # "Who runs it? (revised)"
_NO_FIRST = re.compile(rf"\W*(?:no|none|n/?a)\s*[.,;:!–—-]\s*(?=(?:{_FRONT}{_WORDS})\b.*[?？]\W*\Z)", re.IGNORECASE)
_QUESTION_MARK, _FULL_STOP = re.compile("[?？]"), re.compile("[.。!！]")
_EDGES = " \t*_`"


def find_question(text: str) -> str:
    """Return the first line of `text` that is a question, without a label such as "Revised question:"; else "".

    A line that ends with a question mark is a question; a remark in brackets behind the mark and "No." before a
    question are left out. Some LMs leave the mark out, as many people do: a line with an interrogative is one, too,
    unless it has a word about revising, such as "needed" or "the question", or is a statement: "That is how ...", "Has
    been answered", and a line that ends with a full stop and does not begin with an interrogative and what it asks for
    or with a request ("Name the ..."). A line that begins with a refusal ("None", "No revision needed") ends the text.
    English and Chinese; elsewhere the mark decides.
    """
    for line in text.splitlines():
        line = _REMARK.sub("", _LABEL.sub("", line.strip(_EDGES), count=1).strip(_EDGES))
        first = _NO_FIRST.match(line)
        line = line[first.end() :] if first and not _ABOUT_REVISING.search(line, first.end()) else line
        if _declines(line):
            return ""
        if _asks(line):
            return line
    return ""


def _declines(line: str) -> bool:
    """Return whether the first clause of a line is a negation alone, or a negation with a word about revising."""
    negation = _NEGATION.match(line)
    clause = negation and _CLAUSE.match(line, negation.end())
    if not clause or _INTERROGATIVE.search(clause[0]):
        return False
    return not clause[0].strip() or bool(_ABOUT_REVISING.search(line[: clause.end()]))


def _asks(line: str) -> bool:
    ending = _ending(line)
    if len(ending) == len(line):
        return False
    if _QUESTION_MARK.search(ending):
        return True
    if _ABOUT_REVISING.search(line) or _STATES.match(line):
        return False
    if _QUESTION_MARK.search(line):
        return True
    if _FULL_STOP.search(ending):
        return bool(_BEGINS_BEFORE_STOP.match(line))
    return bool(_BEGINS.match(line) or _INTERROGATIVE.search(line))


def _ending(line: str) -> str:
    """Return what follows the last letter or digit of a line."""
    position = len(line)
    while position and not line[position - 1].isalnum():
        position -= 1
    return line[position:]
