"""The two exceptions of lowerfix, and what is told of those of others."""


class LowerfixError(Exception):
    """Something is wrong with the input or with a pass; the message says what, where and what to do next."""


class Decline(Exception):
    """Raised by a rewrite to say "not this one", with a reason that a user can act on.

    It is the only way for a rewrite to leave a node alone. The engine records it as a finding; it never escapes
    ``lowerfix.apply``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def first_line(error: BaseException) -> str:
    """The root cause of an error in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {line}"[:300] if line else type(error).__name__
