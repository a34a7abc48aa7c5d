"""When the epochs over a batch of solutions end early."""


class BatchEpochs:
    """
    Ends the epochs over a batch once the policy has gone too far from the one that wrote it.

    Args:
        target_kl (`float`, *optional*):
            KL divergence per token that may not be exceeded; `None` never ends them early.
    """

    def __init__(self, target_kl: float | None):
        self.target_kl = target_kl
        self.is_over = False
        self._of_step: list[float] = []

    def begin_batch(self) -> None:
        """A new batch was written by the policy as it is."""
        self.is_over, self._of_step = False, []

    def begin_step(self) -> None:
        """An optimiser step on the same batch begins; it is decided by the last one's divergence, alike on all processes."""
        if self.target_kl is not None and self._of_step:
            self.is_over = self.is_over or sum(self._of_step) / len(self._of_step) > self.target_kl
        self._of_step = []

    def note(self, kl: float) -> None:
        """The divergence at a micro-batch of the step, over all processes."""
        self._of_step.append(kl)
