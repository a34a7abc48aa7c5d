"""
Label proofs by many analyses and checks of those analyses (DeepSeekMath-V2), and ask people about the rest.

    python scripts/auto_label.py proofs.jsonl --verifier verifier --output labels
    python scripts/auto_label.py proofs.jsonl --verifier verifier --meta-verifier meta -n 16 -m 5 -k 4 --output labels

`labels/labels.jsonl` has the labels, `labels/evidence.jsonl` all that was said, and `labels/review.csv` the undecided proofs:
fill in their `score` (0, 0.5 or 1) and run the same command again. It goes on where it was stopped.
"""

import argparse
import sys

from pvg_hf.game.console import quiet_libraries, set_up_logging


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("proofs", help="a .jsonl or .parquet file, a folder, or a dataset on the Hub")
    parser.add_argument("--verifier", required=True, help="folder of a score verifier, or one on the Hub")
    parser.add_argument("--meta-verifier", help="what checks the analyses (the verifier itself by default)")
    parser.add_argument("--output", required=True, help="folder of the labels")
    parser.add_argument("-n", "--num-analyses", type=int, default=8, help="analyses of a proof (%(default)s)")
    parser.add_argument("-m", "--num-checks", type=int, default=3, help="checks of an analysis, odd (%(default)s)")
    parser.add_argument("-k", "--num-agreements", type=int, default=3, help="analyses that must agree (%(default)s)")
    parser.add_argument(
        "--column", action="append", default=[], help="e.g. proof=solution: the source's name of a column"
    )
    parser.add_argument("--split", help="of a folder or a dataset on the Hub")
    parser.add_argument("--seed", type=int, default=0, help="of the analyses (%(default)s)")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    arguments = parser.parse_args()

    set_up_logging()
    quiet_libraries()
    import torch

    from pvg_hf.analyses.scaled import ScaledVerification
    from pvg_hf.data.proofs import load_proofs, read_column_names
    from pvg_hf.models.sources import local_folder
    from pvg_hf.scoring import GenerativeVerifier
    from pvg_hf.scoring.auto_label import digest_of, label_proofs

    options = {"device": arguments.device, "seed": arguments.seed}
    try:
        if arguments.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("There is no GPU that torch could use; leave out `--device`.")
        rule = ScaledVerification(arguments.num_analyses, arguments.num_checks, arguments.num_agreements)
        proofs = load_proofs(arguments.proofs, columns=read_column_names(arguments.column), split=arguments.split)
        folder = local_folder(arguments.verifier)
        meta = local_folder(arguments.meta_verifier) if arguments.meta_verifier else folder
        verifier = GenerativeVerifier.from_pretrained(folder, **options)
        checker = verifier if meta == folder else GenerativeVerifier.from_pretrained(meta, **options)
        bytes_of = {"verifier": digest_of(folder), "meta_verifier": digest_of(meta)}
        made_by = {**bytes_of, "seed": arguments.seed}
        functions = {"evaluate": verifier.evaluate, "check": checker.check_analyses}
        label_proofs(proofs, rule=rule, folder=arguments.output, made_by=made_by, **functions)
    except (ValueError, OSError) as err:
        print(f"error: {err}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
