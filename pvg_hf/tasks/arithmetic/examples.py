"""
Solved examples that show a language model how solutions of the arithmetic world are written: together each verb once. They
begin with more than `MAX_START`, as no problem of any seed does, so that they stand in no split.
"""

EXAMPLES = (
    {
        "problem": "Ana has 18 pens. On Monday Ben gives Ana 6 pens. Ben has 4 pens. On Tuesday Ana keeps a third of the "
        "pens. On Wednesday Ana doubles the pens. How many pens does Ana have?",
        "solution": "has 18\nMonday gets 6: 18 + 6 = 24\nTuesday thirds 3: 24 / 3 = 8\nWednesday doubles 2: 8 * 2 = 16\n"
        "#### 16",
    },
    {
        "problem": "Gus has 16 coins. On Monday Gus loses 7 coins. On Tuesday Gus triples the coins. On Wednesday Gus "
        "buys 2 coins. On Thursday Gus sells 9 coins. How many coins does Gus have?",
        "solution": "has 16\nMonday loses 7: 16 - 7 = 9\nTuesday triples 3: 9 * 3 = 27\nWednesday buys 2: 27 + 2 = 29\n"
        "Thursday sells 9: 29 - 9 = 20\n#### 20",
    },
    {
        "problem": "Lena has 20 shells. On Monday Lena keeps half of the shells. On Tuesday Lena finds 5 shells. Kofi "
        "buys 3 shells. On Wednesday Lena gives Kofi 8 shells. How many shells does Lena have?",
        "solution": "has 20\nMonday halves 2: 20 / 2 = 10\nTuesday finds 5: 10 + 5 = 15\nWednesday gives 8: 15 - 8 = 7\n"
        "#### 7",
    },
)
