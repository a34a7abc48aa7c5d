"""Where a run stands, in one sentence."""

from pvg_hf.evaluation.report.run_data import RunData
from pvg_hf.evaluation.report.tables import counted


def describe_progress(run: RunData) -> str:
    """Whether all rounds are played, or which phase the run is in or after."""
    num_rounds = run.recipe.num_rounds
    if run.evaluated and run.evaluated[-1].round_index == num_rounds - 1:
        return f"Finished: {counted(num_rounds, 'round')} played and evaluated."
    told = [event for event in run.events if event.get("phase") and event["event"] != "alert"]
    if not told:
        return f"Unfinished: nothing of {counted(num_rounds, 'round')} has begun."
    last = told[-1]
    place = "before round 0" if last["round"] is None else f"round {last['round']} of rounds 0-{num_rounds - 1}"
    verb = "has finished" if last["event"] == "phase_finished" else "is in"
    return f"Unfinished: the run {verb} the {last['phase']} phase ({place}{_steps_so_far(run, last)})."


def _steps_so_far(run: RunData, event: dict) -> str:
    steps = [data.steps["step"].max() for data in run.rounds if data.round_index == event["round"] and len(data.steps)]
    if event["phase"] != "prover" or not steps:
        return ""
    return f", step {int(steps[0])} of {run.recipe.for_round(event['round']).prover.planned_steps}"
