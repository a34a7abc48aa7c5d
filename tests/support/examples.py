"""How many examples a property test draws."""

from hypothesis import settings


def examples(number: int) -> settings:
    """Settings of a test that draws `number` examples where others draw 100, and in the nightly as many times more."""
    return settings(max_examples=number * settings.default.max_examples // 100)
