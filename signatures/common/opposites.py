"""English words that exclude each other in one place: who swaps them says something else, not the same in other words.

Each line has sides with words of about one meaning; a word of one side excludes those of the others. Only what readers
would call wrong is here: words of a line need not be opposites everywhere ("a great little film").
"""

import functools

from signatures.common.words import strip_suffix

_LINES = """
large larger largest big bigger biggest huge giant | small smaller smallest little tiny
major serious severe grave | minor slight mild
high higher highest tall taller tallest | low lower lowest
long longer longest lengthy | short shorter shortest brief
old oldest eldest ancient | young youngest new newest modern
good well better best excellent | bad badly worse worst poor poorly terrible
strong stronger | weak weaker
hot hottest warm | cold coldest cool
hard difficult | easy simple
fast faster fastest quick | slow slower slowest
wide wider widest broad | narrow
deep deepest | shallow
rich wealthy | poor impoverished
public | private
male masculine man men boy | female feminine woman women girl
king | queen
prince | princess
actor actress | dancer | politician | physician doctor | physicist | chemist | biologist | lawyer attorney | journalist
painter | sculptor | singer | novelist | historian | philosopher | architect | engineer
defender | midfielder | forward striker | goalkeeper
solo | live | compilation
film movie | novel book | album | song track | play | poem | game
brass | bronze | glass | wood wooden | stone | iron | steel | gold | silver | concrete
red | blue | green | yellow | black | white | orange | purple | brown
winter | spring | summer | autumn
monday | tuesday | wednesday | thursday | friday | saturday | sunday
morning | afternoon | evening | night
earthquake | fire | flood | storm hurricane | famine
season | episode | chapter | game match
mile | kilometre kilometer km | metre meter | foot feet | inch | yard
acre | hectare
kilogram kg | pound | ton tonne | dollar | euro | franc | yen | rupee
year | month | week | day | hour | minute | decade | century
army | navy
import | export
urban | rural
domestic national | foreign international
right | left
upper | lower
top | bottom
front | rear back
maximum | minimum
majority | minority
same identical | different
guilty convict | innocent acquit
legal | illegal banned forbidden
early | mid middle | late
born birth | die died dying dead death
live lived alive survive | die died dying dead death killed
begin began begun beginning start opening opened open reopen | end ending finish closing closed close
buy bought buying acquire purchase | sell sold selling sale
win won winning winner beat defeat | lose lost losing loss loser
victory | defeat loss
succeed success successful | fail failed failure unsuccessful
accept agree approve allow permit support | reject refuse decline deny denied denies ban forbid oppose disagree
confirm prove proven affirm verify verified | refute deny denied denies disprove dispute
announce claim say said state assert admit | deny denied denies
increase rise rose risen grow grew grown | decrease fall fell fallen drop reduce decline shrink shrank
arrive come came enter join | leave left depart quit
take took taken assume | leave left resign
marry married marries wed | divorce separate
build built construct construction create found establish | close closed destroy demolish demolition abolish dissolve
elect | defeat
appoint elect hire | dismiss remove fire
renew renewal extend | cancel cancellation terminate
win won receive award | nominate nomination
income revenue earnings profit | expenditure spending cost expense loss debt
war | peace
founder supporter advocate ally | opponent critic enemy
friend friends | enemy enemies rival
promote | demote
debut | final
single | album
partly partially | fully wholly
include | exclude
connect link unite combine | separate divide
strengthen bolster | weaken
credit praise | blame condemn
cede | seize | inherit
keep kept | change
widow widower | bachelor
bassist | drummer | guitarist | vocalist | pianist
violent cruel | gentle kind
release publish | withhold withheld withdraw withdrew
place add put | remove
follow | precede
ascend | abdicate
believe think thought suppose | know knew known doubt
cause | cure prevent
force | allow
join | drop leave left
send sent | receive
lend lent | borrow
teach taught | learn study studied studies
lead led | follow
hide hid hidden | reveal
kill | wound injure
coach | play
selection | rejection
assistance help aid support | opposition resistance
delight pleased happy glad | appal shock angry sad upset unhappy
birth | burial
wartime | peacetime
comedy | tragedy
amateur | professional
soldier | civilian
liberal | conservative
teacher | student pupil
murderer killer | victim
ancestor | descendant
predecessor | successor
host | guest
plaintiff | defendant
inhabitants people residents | households houses
radio | television | newspaper
bacterium bacteria | virus | fungus
football soccer | basketball | baseball | hockey | tennis | cricket | rugby | golf
guitar | piano | violin | drums | trumpet | saxophone
bird | fish | mammal | insect
coal | oil | gas
city town | village | island | river | mountain | lake
church | mosque | synagogue
remember | forget forgot forgotten
love like | hate dislike
always usually often frequently regularly commonly | rarely seldom infrequently occasionally
around approximately roughly | exactly precisely
"""
# With one of these in front, what is said does not hold.
_TURNING = """
fail failed failure refuse refusal decline deny denied denies unable withdraw withdrew withdrawn prevent avoid forbid
forbidden forbade prohibit reject oppose lack abandon cease neglect omit stop unwilling cancel miss pretend
"""


def _root(word: str) -> str:
    """Return a word or stem without the letters in which its forms differ: "create" as "created"."""
    root, before = word, ""
    while root != before:
        root, before = strip_suffix(root).removesuffix("e"), root
    return root[:-1] if root[-2:-1] == root[-1:] else root


_SIDES: dict[str, list[tuple[int, int]]] = {}  # root -> (line, side) of each place where it stands
for _line, _text in enumerate(_LINES.strip().splitlines()):
    for _side, _words in enumerate(_text.split("|")):
        for _word in _words.split():
            _SIDES.setdefault(_root(_word), []).append((_line, _side))
_TURNING_ROOTS = frozenset(map(_root, _TURNING.split()))


@functools.lru_cache(maxsize=10_000)
def exclude_each_other(one: str, other: str) -> bool:
    """Return whether two words or stems, in lower case, stand on different sides of a line and never on the same."""
    sides, others = _SIDES.get(_root(one), []), _SIDES.get(_root(other), [])
    return not set(sides) & set(others) and any(a[0] == b[0] for a in sides for b in others)


def alike(one: str, other: str) -> bool:
    """Return whether two words or stems stand on the same side of a line."""
    return not set(_SIDES.get(_root(one), ())).isdisjoint(_SIDES.get(_root(other), ()))


def turns(word: str) -> bool:
    """Return whether a word or stem takes back what follows it, as "failed" and "denied" do."""
    return _root(word) in _TURNING_ROOTS
