"""The section of a recipe that is about the Hub."""

from pydantic import Field

from pvg_hf.config.fields import section


@section
class HubConfig:
    """Rounds on the Hub: `NAMESPACE/RUN-prover`, `-verifier` and `-solutions`, a tag for each round."""

    push: bool = Field(False, description="Publish each round once it is evaluated.")
    namespace: str | None = Field(
        None,
        pattern=r"^[\w.-]+$",
        description="User or organisation whose repositories these are; the token's owner if left out.",
    )
    run_name: str | None = Field(
        None, pattern=r"^[\w.-]+$", description="What the repositories' names begin with; `name` if left out."
    )
    private: bool = Field(
        True, description="Make private repositories. Those that are public already are then refused."
    )
    space: bool = Field(
        False,
        description="With `push`: keep the app on the run as a Space, `NAMESPACE/RUN-app`, renewed with each round. Needs a "
        "clone of the repository and the extra `app`.",
    )
    overwrite: bool = Field(
        False,
        description="Replace a round that is published with other content, and take back those after it; it is refused otherwise.",
    )
    license: str | None = Field(
        None,
        pattern=r"^[\w.-]+$",
        description="Licence of the cards, by the Hub's name of it, e.g. `apache-2.0`. If left out, Apache-2.0 where players and task are "
        "built in; otherwise the cards name none.",
    )
