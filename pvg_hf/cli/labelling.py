"""`pvg label`: label proofs by many analyses and checks of these analyses."""

from collections.abc import Sequence
from pathlib import Path

from pvg_hf.analyses.scaled import ScaledVerification
from pvg_hf.cli.results import check_output
from pvg_hf.cli.solutions import SOURCE, add_data_options, chosen_rows, read_names
from pvg_hf.cli.sources import find_verifier, local_verifier
from pvg_hf.game.cli import run_command
from pvg_hf.run.console import ScriptParser, quiet_libraries, set_up_logging


def label(words: Sequence[str]) -> int:
    """
    Label proofs by many analyses and checks of these analyses (DeepSeekMath-V2), and list undecided proofs for human
    review.

        pvg label proofs.jsonl --verifier verifier --output labels
        pvg label proofs.jsonl --verifier verifier --meta-verifier meta -n 16 -m 5 -k 4 --output labels

    `labels/labels.jsonl` has the labels, `labels/evidence.jsonl` all analyses and checks, and `labels/review.csv` the
    undecided proofs: fill in their `score` (0, 0.5 or 1) and run the same command again. A stopped command resumes
    where it was.
    """
    parser = ScriptParser(label.__doc__, "pvg label")
    parser.add_argument("proofs", help=SOURCE)
    parser.add_argument(
        "--verifier", required=True, help="a score verifier: its folder, a run (or RUN:ROUND), or its id on the Hub"
    )
    parser.add_argument("--meta-verifier", help="verifier that checks the analyses (default: --verifier)")
    parser.add_argument("--output", required=True, help="folder for the labels")
    parser.add_argument("-n", "--num-analyses", type=int, default=8, help="analyses of a proof (default: %(default)s)")
    parser.add_argument(
        "-m", "--num-checks", type=int, default=3, help="checks of an analysis, odd (default: %(default)s)"
    )
    parser.add_argument(
        "-k", "--num-agreements", type=int, default=3, help="analyses that must agree (default: %(default)s)"
    )
    add_data_options(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the analyses (default: %(default)s)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    arguments = parser.parse_args(words)

    set_up_logging()
    options = {"device": arguments.device, "seed": arguments.seed}

    def work() -> str:
        check_output(Path(arguments.output), is_folder=True)
        rule = ScaledVerification(arguments.num_analyses, arguments.num_checks, arguments.num_agreements)
        found = find_verifier(arguments.verifier)
        found_meta = find_verifier(arguments.meta_verifier) if arguments.meta_verifier else None
        from pvg_hf.data.proofs import PROOF_COLUMNS, load_proofs  # late: loading `datasets` takes a second

        columns = read_names(arguments.column, PROOF_COLUMNS)
        proofs = load_proofs(arguments.proofs, columns=columns, **chosen_rows(arguments))
        quiet_libraries()
        # Imported late: loading torch takes seconds, and neither `--help` nor a mistake in the arguments needs it.
        import torch

        from pvg_hf.scoring import GenerativeVerifier
        from pvg_hf.scoring.auto_label import digest_of, label_proofs

        if arguments.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("`--device cuda` needs a GPU, but torch finds none; omit `--device`.")
        folder = local_verifier(found)
        meta = local_verifier(found_meta) if found_meta else folder
        verifier = GenerativeVerifier.from_pretrained(folder, **options)
        checker = verifier if meta == folder else GenerativeVerifier.from_pretrained(meta, **options)
        made_by = {"verifier": digest_of(folder), "meta_verifier": digest_of(meta), "seed": arguments.seed}
        label_proofs(
            proofs,
            evaluate=verifier.evaluate,
            check=checker.check_analyses,
            rule=rule,
            folder=arguments.output,
            made_by=made_by,
        )
        return arguments.output

    return run_command(work)
