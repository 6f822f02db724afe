"""What the embedded LM is trained on: how many examples of which predictor come from which source."""

# (program, predictor) -> source -> number of examples at most. Where a source has fewer, all are taken; where the plan
# asks for more than its questions give, they are asked again with other passages, up to `ROUNDS` times.
PLAN: dict[tuple[str, str], dict[str, int]] = {
    ("rag", "reading"): {
        "hotpotqa-train": 2800,
        "hotpotqa-gold": 1900,
        "hotpotqa": 200,
        "hotpotqa-evidence": 500,
        "2wikimultihopqa": 1600,
        "musique": 480,
        "nq_qed": 3000,
        "nq_open": 1200,
        "qed": 600,
        "squad": 3600,
        "squad-sample": 1000,
        "world": 2000,
        "2wikimultihopqa-composed": 1500,
        "hotpotqa-composed": 1000,
    },
    ("rag", "comparing"): {
        "hotpotqa-gold": 300,
        "2wikimultihopqa": 600,
        "world": 1200,
        "2wikimultihopqa-composed": 3500,
        "hotpotqa-composed": 2500,
    },
    ("multihop", "reading.predict"): {
        "hotpotqa-train": 2100,
        "hotpotqa-gold": 1400,
        "hotpotqa": 150,
        "hotpotqa-evidence": 400,
        "2wikimultihopqa": 1300,
        "musique": 300,
        "nq_qed": 1600,
        "nq_open": 600,
        "qed": 400,
        "squad": 2600,
        "squad-sample": 600,
        "world": 1600,
        "2wikimultihopqa-composed": 3000,
        "hotpotqa-composed": 2000,
    },
    ("multihop", "querying.predict"): {
        "hotpotqa-train": 1500,
        "hotpotqa-gold": 700,
        "hotpotqa": 150,
        "2wikimultihopqa": 700,
        "musique": 200,
        "world": 600,
        "2wikimultihopqa-composed": 300,
        "hotpotqa-composed": 100,
    },
    ("genground", "deduction"): {
        "2wikimultihopqa": 1800,
        "musique": 300,
        "hotpotqa-train": 40,
        "hotpotqa-gold": 450,
        "world": 2000,
        "2wikimultihopqa-composed": 800,
        "hotpotqa-composed": 300,
    },
    ("genground", "grounding"): {
        "2wikimultihopqa": 1200,
        "musique": 300,
        "hotpotqa-gold": 300,
        "hotpotqa-train": 24,
        "nq_qed": 1200,
        "nq_open": 500,
        "qed": 300,
        "squad": 1500,
        "squad-sample": 400,
        "world": 900,
        "2wikimultihopqa-composed": 300,
        "hotpotqa-composed": 200,
    },
    ("genground", "conclusion"): {
        "2wikimultihopqa": 500,
        "musique": 120,
        "hotpotqa-gold": 150,
        "world": 500,
        "2wikimultihopqa-composed": 500,
        "hotpotqa-composed": 200,
    },
    ("genground", "truth"): {"2wikimultihopqa": 150, "hotpotqa-gold": 60, "world": 200},
    ("cov_rag", "answering"): {
        "hotpotqa-train": 700,
        "hotpotqa-gold": 400,
        "2wikimultihopqa": 400,
        "musique": 60,
        "nq_qed": 500,
        "nq_open": 400,
        "qed": 150,
        "squad": 600,
    },
    ("cov_rag", "verifying"): {
        "halueval": 1200,
        "hotpotqa-train": 800,
        "2wikimultihopqa": 600,
        "musique": 100,
        "nq_qed": 500,
        "nq_open": 400,
        "squad": 500,
    },
    ("cov_rag", "revising"): {"halueval": 250, "hotpotqa-train": 150, "2wikimultihopqa": 150, "musique": 40},
    ("cov_rag", "reading"): {
        "hotpotqa-train": 300,
        "hotpotqa-gold": 100,
        "2wikimultihopqa": 200,
        "musique": 40,
        "nq_qed": 250,
        "nq_open": 150,
    },
    ("self_completion", "reflecting"): {
        "hotpotqa-train": 600,
        "hotpotqa-gold": 200,
        "2wikimultihopqa": 400,
        "musique": 80,
        "nq_qed": 400,
        "nq_open": 200,
        "squad": 300,
    },
    ("self_completion", "searching"): {
        "hotpotqa-train": 400,
        "hotpotqa-gold": 150,
        "2wikimultihopqa": 300,
        "musique": 80,
    },
    ("retro_rag", "naming"): {"hotpotqa-train": 500, "hotpotqa-gold": 300, "2wikimultihopqa": 200},
    ("retro_rag", "weighing"): {
        "hotpotqa-train": 400,
        "2wikimultihopqa": 300,
        "nq_qed": 300,
        "nq_open": 150,
        "squad": 200,
    },
    ("retro_rag", "answering.predict"): {
        "hotpotqa-train": 900,
        "hotpotqa-gold": 500,
        "2wikimultihopqa": 500,
        "musique": 100,
        "nq_qed": 400,
    },
    ("retro_rag", "concluding.predict"): {"hotpotqa-train": 300, "2wikimultihopqa": 200, "entailment-bank": 800},
    ("retro_rag", "monitoring"): {
        "hotpotqa-train": 500,
        "2wikimultihopqa": 300,
        "nq_qed": 400,
        "nq_open": 150,
        "squad": 300,
    },
    ("retro_rag", "agreement"): {
        "halueval": 900,
        "hotpotqa-train": 200,
        "2wikimultihopqa": 200,
        "nq_qed": 200,
        "nq_open": 150,
    },
    ("retro_rag", "assessing"): {"halueval": 200, "hotpotqa-train": 150, "2wikimultihopqa": 150},
    ("retro_rag", "inferring"): {
        "entailment-bank": 1300,
        "hotpotqa-train": 500,
        "hotpotqa-gold": 300,
        "2wikimultihopqa": 400,
        "musique": 100,
    },
    ("retro_rag", "relevance"): {"hotpotqa-train": 400, "2wikimultihopqa": 250, "nq_qed": 250},
    ("retro_rag", "attribution"): {
        "scifact": 560,
        "hotpotqa-train": 500,
        "2wikimultihopqa": 300,
        "nq_qed": 400,
        "nq_open": 200,
        "squad": 400,
    },
    ("retro_rag", "searching"): {"hotpotqa-train": 400, "2wikimultihopqa": 250, "musique": 60},
    ("corag", "answering"): {
        "2wikimultihopqa": 600,
        "musique": 150,
        "hotpotqa-gold": 200,
        "nq_qed": 700,
        "nq_open": 300,
        "squad": 600,
    },
}
PROGRAMS = tuple(dict.fromkeys(program for program, _ in PLAN))

# The reading examples of `rag` can have the answer alone, or the deciding sentences before it, as the predictor here is
# asked; questions, passages and their order are the same, so that both can be compared by training.
READINGS = ("answer", "evidence")
EVIDENCE_FIRST: dict[tuple[str, str], tuple[str, str]] = {("rag", "reading"): ("multihop", "reading.predict")}

# Sources of which the readers are asked whole questions alone: their steps are far easier.
WHOLE = ("2wikimultihopqa-composed", "hotpotqa-composed")

ROUNDS = 3
SIZES = (3, 3, 4, 5)  # whole passages in a prompt
CUT_SHARE = 0.4  # of the reading and grounding examples: passages cut to six to ten sentences together
DEMO_SHARE = 0.36  # of the examples that are to carry demonstrations; some of them are too long for any
REWORDED_SHARE = 0.5  # of the examples: the instruction in another wording
LONGEST = 2048  # tokens of prompt and reply
LONGEST_PASSAGE, LONGEST_ANSWER = 250, 8  # words; tables and lists of Natural Questions have thousands
WORLD_SHARE = 0.5  # largest share of a predictor's examples that is of the generated world
VALIDATION = 30  # one question in so many is held back to measure the loss
