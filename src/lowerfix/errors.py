"""The two exceptions of lowerfix."""


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
