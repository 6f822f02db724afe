"""Recognise a response that declines to answer, in English and Chinese, however it is worded.

"How Credible Is an Answer From Retrieval-Augmented LLMs?", section 5.1, asks for one fixed sentence, which LMs vary:
`states_refusal` finds that sentence, the paper's own definition of an abstention; `refuses` finds its variants, too.

Measured: `refuses` is true of 0 of 400 responses of LMs (217 of ExpertQA, 183 of FActScore), of 0 of 19,904 gold
answers (TriviaQA, Natural Questions, WebQuestions, HotpotQA), of 1 of 1,713 wrong answers of HalluQA (which says so at
its end) and of 1 of 12,332 sentences of web pages and of Wikipedia ("I don't know how they know her."). Of the 146 gold
answers of HalluQA that begin with "this question cannot be answered", it misses the one that then answers after "but".
"""

import functools
import re

from signatures.citation_marks import strip_citations
from signatures.text import is_chinese, normalize_answer, split_sentences

REFUSAL = "I'm sorry, I cannot answer the question based on the provided references"
_LONGEST = 400  # characters of a clause that are read, which bounds the time
_FIXED = normalize_answer(REFUSAL).removeprefix("im sorry ")


@functools.cache  # compiled when first used, which takes 20 ms that an import of a program does not need
def _pattern(text: str) -> re.Pattern[str]:
    """Return an expression in which `<name>` stands for a part of `_PARTS`; line ends and indentation are layout."""
    joined = "".join(line.removeprefix("    ") for line in text.splitlines())
    for _ in range(3):  # parts may contain parts
        joined = re.sub(r"<([\w ]+)>", lambda name: _PARTS[name[1]], joined)
    return re.compile(joined)


_PARTS = {
    # What may come before the clause itself.
    "lead": r"(?:<opener>,? )*",
    "opener": r"(?:<sorry>|so|and|or|but|however|therefore|thus|hence|because|since|as|that|then|consequently|overall|"
    r"nevertheless|although|though|while|as a result|in (?:short|summary|conclusion))",
    "sorry": r"(?:(?:i'?m |i am )?(?:very |so )?(?:sorry|afraid)|unfortunately|regrettably|i apologi[sz]e)",
    "ly": r"(?:(?:\w+ly|also|still|therefore|thus|yet) )*",
    "cannot": r"(?:can ?not|can'?t|could ?n[o']t|could not|(?:am|are|'m|'re|was|were) (?:unable|not able) to)",
    # The passages as the subject of a sentence; "articles" or "data" only if they are the ones that were given.
    "reading": r"(?:(?:(?:the|these|those|any) )?(?:<given> )*<passages>|(?:the|these|those) (?:\w+ )?<given> <texts>)"
    r"(?: (?:that (?:are|is|were) )?<given>)*",
    "passages": r"(?:references?|passages?|sources?|contexts?|excerpts?|snippets?|information)",
    "texts": r"(?:texts?|documents?|articles?|materials?|evidence|data|results?|content)",
    "given": r"(?:provided|given|supplied|available|retrieved|cited|listed|search|current|above|present|relevant)",
    "question": r"(?:the|this|that|your)(?: \w+)? (?:question|query)",
    "nothing": r"(?:no|insufficient|not enough) (?:(?:relevant|further|specific|direct|explicit|such) )?"
    r"(?:information|mention|details?|answer|data|evidence|indication|clues?)",
    "tells": r"(?:provide|contain|mention|include|specify|state|say|answer|address|give|tell|indicate|offer|supply|"
    r"discuss|cover|reveal|identify|name|list|explain|describe|clarify|allow|suffice)s?",
    "learn": r"(?:determine|say|tell|identify|confirm|find|establish|infer|know|provide)",
    "learnt": r"(?:answered|determined|identified|confirmed|found|established|inferred|concluded|ascertained|verified|"
    r"provided|given|deduced|mentioned|specified|stated|included|discussed)",
    # To answer a question, as against a call or a letter.
    "answer": r"answer(?=$| (?:<question>|it$|this\b|that\b|based|from|with|given|wh\w+|how)\b)",
    "an answer": r"(?:provide|give|offer) (?:you )?(?:with )?(?:an?|the|any)(?: \w+)? answer\b",
    "short subject": r"(?:it|this|that|(?:the |this )?(?:answer|information)) ?(?:is|was)?",
    "untold": r"(?:mentioned|specified|stated|provided|given|found|told|disclosed|available)",
    "impossible": r"(?:it is|it's|it was) <ly>(?:not possible|impossible)",
    "unclear": r"(?:it is|it's|it was) <ly>(?:not possible|impossible|unclear|not clear|unknown)",
    "from": r"(?:(?:up)?on|from|using|with|without|given|in|within|by)",
    # The same in Chinese.
    "开头": r"(?:非常|很|十分|抱歉|对不起|遗憾|因此|所以|因而|故|但是?|不过|然而|可是|而且|目前|暂时|我们?"
    r"|[,，、：\s])*",
    "不能": r"(?:无法|不能|没办法|没有办法|没法|难以)够?[准正明确切直接完整笼统全面地]*",
    "资料": r"(?:(?:所|已|以上|上述|现有|当前|目前|这些|您|你|给出|给定|提供|检索到|参考|引用|相关|的)*"
    r"(?:(?:资料|文献|段落|文段|文本|材料|信息|内容|上下文|文章|片段|参考)[里中内上]?|[原本]?文[里中内]))",
    "根据": r"(?:(?:根据|基于|从|仅凭)<资料><开头>)?",
    "问题": r"(?:对于?)?(?:这个|该|此|本|您的|你的)(?:问题|提问)",
}

# The subject is I, we or the question, the verb is to answer: declined, unless a contrast takes it back.
_DECLINES = r"""
    <lead>(?:
    (?:i|we)(?:'m| am| are|'re)? ?<ly>(?:<cannot>|unable to|not able to) <ly>(?:answer\b|<an answer>)
    |(?:unable to|not able to|not possible to|impossible to|cannot|can't|can not) <ly><answer>
    |<question> <ly>(?:<cannot> <ly>be|is not|isn't) <ly>(?:answered|answerable)\b
    |<impossible> (?:for (?:me|us) )?to <ly><answer>
    )"""
# Something is lacking: a refusal only if the response says nothing else.
_LACKS = r"""
    <lead>(?:
    (?:<reading>|they|it) <ly>(?:(?:(?:do|does|did) not|don't|doesn't|didn't|fails? to) <ly><tells>\b
    |lacks?\b|(?:is|are)(?: not|n't)? (?:insufficient|sufficient|inadequate|enough)\b)
    |<reading> <ly>(?:<tells>|ha(?:s|ve)|makes?) <ly><nothing>\b
    |(?:none|neither|nothing) (?:of|in) (?:them|<reading>) <ly><tells>\b
    |(?:no|neither) (?:passage|reference|source) <ly><tells>\b
    |(?:(?:there is|there's|there was) <ly>)?no mention (?:of (?:it|this|that|these|them|him|her)$|.*<from> <reading>)
    |(?:(?:the|an?|any) )?(?:answer|information)\b.* (?:is not|isn't|is (?:missing|absent)) <from> <reading>
    |(?:<short subject> )?(?:unclear|not (?:known|clear)|(?:un|not (?:explicitly |directly )?)<untold>)
    (?: <from> <reading>)?$
    |the answer is unknown$|no answer(?: (?:is |was )?(?:found|given|provided|available))?(?: <from> <reading>)?$
    |unable to <ly><learn>\b
    |(?:(?:it|this|that|the answer) )?<cannot> <ly>be <ly><learnt>$
    |<impossible> (?:for (?:me|us) )?to <ly>(?:determine|say|tell|identify|confirm|establish|infer|know)\b
    |(?:(?:there is|there's|there was|i have|we have) <ly>)?(?:no|not enough|insufficient)
     (?:relevant |further )?(?:information|context|details?)\b
    |(?:i|we)(?:'m|'re)? <ly>(?:<cannot>|unable to|don't|do not) <ly><learn>\b
    |<unclear>(?:$|\b.* <from> <reading>)
    |.*(?:<cannot> <ly>be|(?:is|are|was|were) not|(?:is|are|was|were)n't) <ly><learnt>\b.* <from> <reading>
    )"""
# Neither an answer nor a refusal: apologies, requests, what the passages are about instead, a clause that concedes.
_ASIDE = r"""
    <lead>(?:<opener>?$|please\b|(?:more|further|additional) (?:information|context|details?|references?|passages?)\b
    |(?:i|we) (?:would )?(?:need|require)\b|(?:if|once) you\b|let me know\b
    |(?:based on|according to|given|from|in|with|without) <reading>$
    |(?:<reading>|they|it) (?:only|mainly|mostly|primarily|merely|just)\b
    )|(?:although|though|while|whilst)\b"""
_CONTRAST = re.compile(r"(?:but|however|nevertheless|nonetheless|still|yet|that said)\b")
_OPENER = "<lead><opener>$"
# A conjunction or a subject after a comma begins a clause.
_CLAUSE = r"""
    ; |,? [-\u2013\u2014] |[,:] (?=(?:but|however|so|yet|and|or|therefore|although|though|while|nevertheless|hence|
    thus|which|because|since|as|they|it|i|we|the|there|this|these|none|neither|nothing|no)\b)| (?=(?:but|because) )"""

_DECLINES_ZH = (
    r"<开头><根据>(?:<问题><开头>)?<不能>(?:根据<资料>)?(?:给出|做出|作出)?"
    r"[准确切完整的地]*(?:回答|作答|解答|答复|答案)"
)
_LACKS_ZH = (
    r"<开头>(?:<资料>[并都均也]*(?:没有|未|不)[能曾足以明确直接具体够充分地]*"
    r"(?:提供|包含|提及|提到|说明|包括|涉及|给出|指出|记载|回答|足|充分|够|$|"
    r"(?:任何|相关|有关|具体|这方面|的)*(?:资料|信息|内容|答案|线索|依据)$)"
    r"|(?:没有|未)(?:提及|提到|说明|给出|指出|找到)(?:答案|相关信息)?$"
    r"|(?:缺乏|缺少|没有)(?:足够|充分|相关)的?(?:资料|信息|内容|依据)"
    r"|<根据><不能>(?:确定|判断|得知|得出|推断|确认)|不(?:知道|清楚)(?:答案|$))"
)
_ASIDE_ZH = r"<开头>(?:$|请|如果[您你]|虽然|尽管|因为|由于|需要更多|(?:根据|基于|从)<资料>$)"
_OPENER_ZH = "<开头>$"
_CONTRAST_ZH = re.compile(r"但是?|不过|然而|可是")
_CONCEDES_ZH = re.compile(r"虽然|尽管")  # the contrast that follows is with this clause
_CLAUSE_ZH = re.compile(r"[，；;]|, ")


def states_refusal(text: str) -> bool:
    """Return whether `text` contains "I cannot answer the question based on the provided references".

    The paper's definition of an abstention: compared after normalisation, with any text before and after.
    """
    return f" {_FIXED} " in f" {normalize_answer(text)} "


def refuses(text: str) -> bool:
    """Return whether a response declines to answer the question.

    It does if it states the paper's sentence (`states_refusal`); if one of its clauses says that I, we or nobody can
    answer the question, unless a later clause takes that back ("but ..."); or if all that it says is that the passages
    do not tell. What others cannot answer, or what the passages lack beside an answer, is no refusal.
    """
    if states_refusal(text):
        return True
    chinese = is_chinese(text)
    texts = (_DECLINES_ZH, _LACKS_ZH, _ASIDE_ZH) if chinese else (_DECLINES, _LACKS, _ASIDE)
    declines, lacks, aside = map(_pattern, texts)
    contrast = _CONTRAST_ZH if chinese else _CONTRAST
    declined, lacking, content, before = False, False, False, ""
    for clause in _clauses(text, chinese):
        if declines.match(clause):
            declined = True
        elif lacks.match(clause):
            lacking = True
        elif not aside.match(clause):
            content = True
            declined = declined and not (contrast.match(clause) and not _CONCEDES_ZH.search(before))
        before = clause
    return declined or (lacking and not content)


def _clauses(text: str, chinese: bool) -> list[str]:
    """Return the clauses of a text in lower case, without marks, emphasis and curly apostrophes."""
    plain = re.sub(r"[\u2018\u2019\u02bc\uff07]", "'", strip_citations(text))
    plain = re.sub(r"[*_`#]+", "", plain).strip().casefold()
    plain = plain[1:-1] if re.fullmatch(r"[\"\u201c'][^\"\u201c\u201d]*[\"\u201d']", plain) else plain
    found = [clause for sentence in split_sentences(plain) for clause in _parts(sentence, chinese)]
    return [" ".join(clause[:_LONGEST].split()).strip(" .,!:;。！、") for clause in found]


def _parts(sentence: str, chinese: bool) -> list[str]:
    """Return the clauses of a sentence; what only opens the next one ("Unfortunately," or "However,") stays with it."""
    separator, comma = (_CLAUSE_ZH, "，") if chinese else (_pattern(_CLAUSE), ", ")
    opener = _pattern(_OPENER_ZH if chinese else _OPENER)
    parts: list[str] = []
    for part in separator.split(sentence):
        if parts and len(parts[-1]) <= _LONGEST and opener.match(parts[-1]):
            part = f"{parts.pop()}{comma}{part}"
        parts.append(part)
    return parts
