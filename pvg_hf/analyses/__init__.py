"""
Analyses, i.e. written evaluations of a proof: their form, the prompts for them, and the label that many of them give.
"""
