"""Every error a user can meet. A message is one sentence: what was found, what was expected, what to do."""


class InfrecError(Exception):
    """Base of all errors that infrec raises on purpose."""


class DataError(InfrecError):
    """The data is missing, damaged, or not what it claims to be."""


class ConfigError(InfrecError, ValueError):
    """A setting has a value that cannot work."""


class NotFittedError(InfrecError):
    """A model was asked for scores before `fit`."""


class SolveError(InfrecError):
    """A linear solve failed, or would have returned NaN."""


class MemoryBudgetError(InfrecError):
    """The job would not fit in memory; raised before anything large is allocated."""


class ArtifactError(InfrecError):
    """A saved directory is missing, damaged, half-written, or from a newer version."""


def first_line(error: BaseException) -> str:
    """First line of another library's error, short and without its full stop; its class where empty."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:160].encode(errors="backslashreplace").decode().rstrip(".")
