"""Why a strategy stopped, in one word of a prediction, the same words for all strategies.

Tables show how often each occurs: a strategy that mostly ends at its cap is another one than its paper describes.
"""

DONE = "done"  # a fixed number of steps was taken
FINISHED = "finished"  # the strategy's own rule: the LM declared the answer final, or a test accepted it
CAP = "cap"  # the most steps, passages or tokens that its knobs allow were used up without that
REPEATED = "repeated"  # the next step would have repeated an earlier one, or the LM named none
NOTHING_FOUND = "nothing found"  # a search found nothing (new)
UNPARSEABLE = "unparseable"  # a reply that could not be read ended it
WITHHELD = "withheld"  # there was an answer, and it was not likely enough to be right

STOP_REASONS = (DONE, FINISHED, CAP, REPEATED, NOTHING_FOUND, UNPARSEABLE, WITHHELD)
