"""The refusal of mails in which there is no series to take, with what is known of them."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.errors import UserError
from pipeline.model import LeftOut


class NoSeries(UserError):
    """No series to take. `missing`: patch numbers; `left_out`: every mail, and why it is not taken.

    `version`: of the series that was looked at, 0 where there is none.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        left_out: Iterable[LeftOut] = (),
        missing: Iterable[int] = (),
        problems: Iterable[str] = (),
        version: int = 0,
    ) -> None:
        super().__init__(message, hint=hint)
        self.left_out = tuple(left_out)
        self.missing = tuple(missing)
        self.problems = tuple(problems)
        self.version = version
