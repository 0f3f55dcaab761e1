"""What is raised where ranks do not fit together."""


class RankDivergence(RuntimeError):  # noqa: N818 - what has happened
    """The processes of a program were about to run graphs that do not communicate alike.

    Or one of them has died, or does not come to where the others are. Without this error they would
    wait for each other. Nothing of the graph has run. `ranks` are those that differ or are missing.
    """

    def __init__(self, text: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.ranks = ranks
