"""Contradictions that entailment oracles should refuse: changed numbers, negations and swapped roles.

Written by hand for this measurement. Each passage has a statement that it entails, and three that it contradicts, which
differ from the first in one point; all names are invented, so that no LM knows better. An oracle that measures how many
words agree accepts nearly all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from optimizers.metrics.entailment.oracle import EntailmentOracle, judge

KINDS = ("changed number", "negation", "swapped roles")


@dataclass(frozen=True)
class Contradicted:
    """A passage, a statement that it entails, and three that it contradicts, one for each of `KINDS`."""

    premise: str
    entailed: str
    changed_number: str
    negation: str
    swapped_roles: str

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield kind and text of each contradicting statement."""
        yield from zip(KINDS, (self.changed_number, self.negation, self.swapped_roles), strict=True)


PASSAGES = (
    Contradicted(
        "Ansa Merrow, who designed the lighthouse of Quillon in 1871, later sold it to Bert Oyle for 300 crowns.",
        "Ansa Merrow sold the lighthouse of Quillon to Bert Oyle for 300 crowns.",
        "Ansa Merrow sold the lighthouse of Quillon to Bert Oyle for 900 crowns.",
        "Ansa Merrow never sold the lighthouse of Quillon to Bert Oyle for 300 crowns.",
        "Bert Oyle sold the lighthouse of Quillon to Ansa Merrow for 300 crowns.",
    ),
    Contradicted(
        "In the final of 1988, held in Tarn, the Harriers beat the Kestrels by 4 goals in front of 12,000 people.",
        "The Harriers beat the Kestrels by 4 goals in the final of 1988.",
        "The Harriers beat the Kestrels by 7 goals in the final of 1988.",
        "The Harriers did not beat the Kestrels by 4 goals in the final of 1988.",
        "The Kestrels beat the Harriers by 4 goals in the final of 1988.",
    ),
    Contradicted(
        "The drug velorin was tested on 240 patients; it lowered blood pressure more than the older drug andapril.",
        "Velorin, tested on 240 patients, lowered blood pressure more than andapril.",
        "Velorin, tested on 420 patients, lowered blood pressure more than andapril.",
        "Velorin, tested on 240 patients, did not lower blood pressure more than andapril.",
        "Andapril, tested on 240 patients, lowered blood pressure more than velorin.",
    ),
    Contradicted(
        "Orla Finch taught the painter Tomas Reel at the academy of Brandt from 1902 to 1905.",
        "Orla Finch taught Tomas Reel at the academy of Brandt until 1905.",
        "Orla Finch taught Tomas Reel at the academy of Brandt until 1925.",
        "Orla Finch did not teach Tomas Reel at the academy of Brandt until 1905.",
        "Tomas Reel taught Orla Finch at the academy of Brandt until 1905.",
    ),
    Contradicted(
        "The river Ossa, 90 kilometres long, flows out of Lake Marne and into the river Dell near Port Casten.",
        "The river Ossa, 90 kilometres long, flows into the river Dell near Port Casten.",
        "The river Ossa, 19 kilometres long, flows into the river Dell near Port Casten.",
        "The river Ossa, 90 kilometres long, does not flow into the river Dell near Port Casten.",
        "The river Dell, 90 kilometres long, flows into the river Ossa near Port Casten.",
    ),
    Contradicted(
        "Harrow Mills bought its rival Pell & Sons in 1964 for 2 million crowns and closed the works at Stane.",
        "Harrow Mills bought Pell & Sons in 1964 for 2 million crowns.",
        "Harrow Mills bought Pell & Sons in 1964 for 8 million crowns.",
        "Harrow Mills never bought Pell & Sons in 1964 for 2 million crowns.",
        "Pell & Sons bought Harrow Mills in 1964 for 2 million crowns.",
    ),
    Contradicted(
        "At the vote of 3 May, the province of Lowmark elected Ines Dahl governor over Karl Voss by 51 to 49 percent.",
        "Ines Dahl was elected governor of Lowmark over Karl Voss with 51 percent.",
        "Ines Dahl was elected governor of Lowmark over Karl Voss with 71 percent.",
        "Ines Dahl was not elected governor of Lowmark over Karl Voss with 51 percent.",
        "Karl Voss was elected governor of Lowmark over Ines Dahl with 51 percent.",
    ),
    Contradicted(
        "The film Grey Harbour, directed by Mina Sorel and written by Paul Ketter, won 5 prizes in Aune.",
        "Grey Harbour, directed by Mina Sorel and written by Paul Ketter, won 5 prizes.",
        "Grey Harbour, directed by Mina Sorel and written by Paul Ketter, won 6 prizes.",
        "Grey Harbour, directed by Mina Sorel and written by Paul Ketter, won none of 5 prizes.",
        "Grey Harbour, directed by Paul Ketter and written by Mina Sorel, won 5 prizes.",
    ),
    Contradicted(
        "Copper melts at a lower temperature than iron; the furnace of Eldring was built for 1,200 degrees.",
        "Copper melts at a lower temperature than iron, and the furnace was built for 1,200 degrees.",
        "Copper melts at a lower temperature than iron, and the furnace was built for 2,100 degrees.",
        "Copper does not melt at a lower temperature than iron, and the furnace was built for 1,200 degrees.",
        "Iron melts at a lower temperature than copper, and the furnace was built for 1,200 degrees.",
    ),
    Contradicted(
        "King Aldo II, son of Queen Berta, ruled Sarnia for 31 years and was followed by his cousin Rolf.",
        "King Aldo II, son of Queen Berta, ruled Sarnia for 31 years.",
        "King Aldo II, son of Queen Berta, ruled Sarnia for 13 years.",
        "King Aldo II, son of Queen Berta, never ruled Sarnia for 31 years.",
        "Queen Berta, daughter of King Aldo II, ruled Sarnia for 31 years.",
    ),
)


def measure_contradictions(oracle: EntailmentOracle) -> Mapping[str, Any]:
    """Return how many statements an oracle takes for entailed: of each kind of contradiction, and of the entailed ones.

    Returns:
        For each of `KINDS`, and for "entailed", a dict with `passed` and `of`.
    """
    statements = [("entailed", each.premise, each.entailed) for each in PASSAGES]
    statements += [(kind, each.premise, text) for each in PASSAGES for kind, text in each.contradictions()]
    entails = judge(oracle, [(premise, text) for _, premise, text in statements])
    return {
        kind: {
            "passed": sum(entails(premise, text) for name, premise, text in statements if name == kind),
            "of": len(PASSAGES),
        }
        for kind in (*KINDS, "entailed")
    }
