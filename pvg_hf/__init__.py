"""
Prover-verifier games with language models on the Hugging Face stack.

Words, symbols and abbreviations of the docstrings (K24, SRC, D_V) are explained in docs/reference/glossary.md, the
structure of the package in docs/development/architecture.md, and its exceptions in docs/reference/errors.md.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pvg_hf.core.moved_names import keep_old_names

if TYPE_CHECKING:
    from pvg_hf.config import load_recipe
    from pvg_hf.experimental.messages.stackelberg_config import StackelbergConfig
    from pvg_hf.experimental.messages.stackelberg_trainer import StackelbergTrainer
    from pvg_hf.game.play import play
    from pvg_hf.hub.pull import pull_round
    from pvg_hf.hub.push import push_round
    from pvg_hf.scoring import VerifierScorer
    from pvg_hf.tasks import load_task
    from pvg_hf.trainers.generative.config import ScoreVerifierConfig
    from pvg_hf.trainers.generative.trainer import ScoreVerifierTrainer
    from pvg_hf.trainers.ppo.config import ProverPPOConfig
    from pvg_hf.trainers.ppo.trainer import ProverPPOTrainer
    from pvg_hf.trainers.prover.config import ProverGRPOConfig
    from pvg_hf.trainers.prover.trainer import ProverGRPOTrainer
    from pvg_hf.trainers.reward.config import NoisyRewardConfig
    from pvg_hf.trainers.reward.trainer import NoisyRewardTrainer

# bitsandbytes, which peft imports wherever it is installed, warns of a missing package that it computes without.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

keep_old_names()

# Names are imported when they are first asked for, so that `import pvg_hf` does not wait for torch.
_MODULES = {
    "NoisyRewardConfig": "pvg_hf.trainers.reward.config",
    "NoisyRewardTrainer": "pvg_hf.trainers.reward.trainer",
    "ProverGRPOConfig": "pvg_hf.trainers.prover.config",
    "ProverGRPOTrainer": "pvg_hf.trainers.prover.trainer",
    "ProverPPOConfig": "pvg_hf.trainers.ppo.config",
    "ProverPPOTrainer": "pvg_hf.trainers.ppo.trainer",
    "ScoreVerifierConfig": "pvg_hf.trainers.generative.config",
    "ScoreVerifierTrainer": "pvg_hf.trainers.generative.trainer",
    "StackelbergConfig": "pvg_hf.experimental.messages.stackelberg_config",
    "StackelbergTrainer": "pvg_hf.experimental.messages.stackelberg_trainer",
    "VerifierScorer": "pvg_hf.scoring",
    "load_recipe": "pvg_hf.config",
    "load_task": "pvg_hf.tasks",
    "play": "pvg_hf.game.play",
    "pull_round": "pvg_hf.hub.pull",
    "push_round": "pvg_hf.hub.push",
}

__all__ = [
    "NoisyRewardConfig",
    "NoisyRewardTrainer",
    "ProverGRPOConfig",
    "ProverGRPOTrainer",
    "ProverPPOConfig",
    "ProverPPOTrainer",
    "ScoreVerifierConfig",
    "ScoreVerifierTrainer",
    "StackelbergConfig",
    "StackelbergTrainer",
    "VerifierScorer",
    "load_recipe",
    "load_task",
    "play",
    "pull_round",
    "push_round",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return vars(import_module(_MODULES[name]))[name]


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
