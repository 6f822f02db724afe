"""Whether an LM's text asks something: only a question is worth a search.

Where a prompt asks for a question or nothing, LMs also write "No revision is needed." or "The question is fine as it
is.", in any words. Searching for such a sentence would replace good references by poor ones.

Measured on public data sets: not accepted are 9.0 % of 4,410 queries of Natural Questions, which are search terms that
ask nothing ("songs of that band"), and 0.2 % of 13,238 other questions; accepted are 0.7 % of 1,370 sentences of
Wikipedia.
"""

import re

_WORDS = r"(?:who|whom|whose|what|which|when|where|why|how)(?:['’]?(?:s|d|re|ll))?"
_CHINESE = "[谁誰哪几幾怎吗嗎呢何]|什[么麼]|多少|是否|是不是|有没有|有沒有|能否|可否|多[大高長长遠远久重快]"
_INTERROGATIVE = re.compile(rf"\b{_WORDS}\b|{_CHINESE}", re.IGNORECASE)
_BEGINS = re.compile(
    rf"\W*(?:(?:(?:in|on|at|from|to|of|for|by|with|under|since|during|after|before|about) )?{_WORDS}"
    r"|am|is|are|was|were|do|does|did|has|have|had|can|could|will|would|shall|should|may|might|must"
    r"|name|list|give|tell|identify|find|state|describe|explain|define|complete|show|compare|indicate|please)\b"
    rf"|.*(?:{_CHINESE})",
    re.IGNORECASE,
)
# Words about revising, which a question to search for seldom needs.
_ABOUT_REVISING = re.compile(
    r"\b(?:revis\w*|rewrit\w*|rephras\w*|reword\w*|reformulat\w*|unchanged|chang(?:e|es|ing)|need(?:s|ed)?|required"
    r"|(?:un)?necessary|applicable|n/?a|none|null|nil|nothing|empty|blank|as (?:it )?is|fine|correct(?:ly)?"
    r"|(?:the|this|an?|original|current|given|same|further|other|new|better) "
    r"(?:question|query|search|response|answer))\b"
    r"|无需|無需|不需|不用|不必|[无無毋][须須]|必要|修[改订訂]|改[写寫动動]|[变變]更|调整|保持|不[变變]|空白|正确|正確"
    r"|[问問][题題]|同上",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\W*(?:(?:no|none|not|nothing|nil|null|n/?a)\b|[无無不没沒毋])", re.IGNORECASE)
_CLAUSE = re.compile(r"[^.,;:!?。，；：！？—–]*")
_LABEL = re.compile(
    r"\A(?:(?:(?:the|a|here is|here's|revised|rewritten|reworded|improved|new|better|original|search) )*"
    r"(?:question|query|revision)(?: is)?|[新原]?(?:[修改][改订訂写寫][后後]?)?的?[问問][题題])\s*\**[:：][\s*]*",
    re.IGNORECASE,
)
_QUESTION_MARK, _FULL_STOP = re.compile("[?？]"), re.compile("[.。!！]")
_EDGES = " \t*_`"


def find_question(text: str) -> str:
    """Return the first line of `text` that is a question, without a label such as "Revised question:"; else "".

    A line that ends with a question mark is a question. Some LMs leave the mark out, as many people do: a line with
    an interrogative is one, too, unless it has a word about revising, such as "needed" or "the question", or is a
    statement: a line that ends with a full stop must begin as a question or a request ("Name the ..."). A line that
    begins with a refusal ("None", "No revision needed") ends the text. English and Chinese; elsewhere the mark decides.
    """
    for line in text.splitlines():
        line = _LABEL.sub("", line.strip(_EDGES), count=1).strip(_EDGES)
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
    if _ABOUT_REVISING.search(line):
        return False
    if _QUESTION_MARK.search(line) or _BEGINS.match(line):
        return True
    return bool(_INTERROGATIVE.search(line)) and not _FULL_STOP.search(ending)


def _ending(line: str) -> str:
    """Return what follows the last letter or digit of a line."""
    position = len(line)
    while position and not line[position - 1].isalnum():
        position -= 1
    return line[position:]
