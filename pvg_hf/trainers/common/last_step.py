"""Lets a training that resumes from its last step end there."""


class LastStepMixin:
    """
    Trains on no further batch once all steps are taken.

    When transformers' Trainer resumes from a checkpoint of the last step in the middle of an epoch, it takes another step before
    it compares the number of steps.
    """

    def get_batch_samples(self, epoch_iterator, num_batches, device):
        if self.state.global_step >= self.state.max_steps:
            return [], None
        return super().get_batch_samples(epoch_iterator, num_batches, device)
