"""The number of calls until a fault."""


class Countdown:
    """Strikes once, at the `left`-th call from now; never if that is 0."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 0

    def strikes(self) -> bool:
        """Count a call, and return whether the fault happens in it."""
        if not self.left:
            return False
        self.left -= 1
        return self.left == 0
