"""The section of a recipe about PPO's critic."""

from pydantic import Field

from pvg_hf.config.fields import Count, Positive, Share, section


@section
class PPOConfig:
    """
    For `algorithm: ppo`: the critic, and what PPO does with it. The KL divergence within its rewards is weighed by
    `prover.beta`.
    """

    critic: str | None = Field(
        None,
        description="`adapter`: an adapter like the prover's, and a head, on the prover's frozen base; needs `prover.lora`. "
        "`verifier`: a copy of the body of the round's verifier, trained whole. A Hub id or folder (`arithmetic`: the packaged "
        "verifier): that model, trained whole. If left out, `adapter` where the prover has `lora`, else a copy of the "
        "prover's body. A model must have the prover's vocabulary.",
    )
    critic_learning_rate: Positive | None = Field(
        None, description="Peak learning rate of the critic; `prover.learning_rate` if left out."
    )
    num_iterations: Count = Field(
        4, description="Epochs over a batch of solutions. `prover.max_steps` counts each epoch's steps."
    )
    gamma: Share = Field(1.0, description="Discount of later rewards, per token.")
    gae_lambda: Share = Field(
        0.95,
        description="Lambda of generalised advantage estimation: 1 takes what a solution was paid, 0 the critic's word for it.",
    )
    whiten_advantages: bool = Field(
        True, description="Shift and scale the advantages of a batch to mean 0 and variance 1."
    )
    vf_coef: Positive = Field(0.1, description="Weight of the value loss beside the policy's.")
    cliprange_value: Positive | None = Field(
        0.2, description="How far a value may move on one batch, in units of the reward; `null` does not hold it."
    )
    target_kl: Positive | None = Field(
        None,
        description="Leave out what is left of the epochs over a batch once the KL divergence from the prover that wrote it, per "
        "token, is above this.",
    )
