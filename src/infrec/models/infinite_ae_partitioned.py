"""∞-AE from a prepared dataset that is never in memory: partition by partition, in one process or in many.

Two readings of the partitions that are this process's own. The first collects the rows of the centres (and of
the users on whom λ is chosen); the second is the pass, which adds up every user. Each process reads only its
own; what they share are sums (kernels/collectives.py).

λ is chosen from the same pass. A random 20,000 users at most are the judges: a fifth of their interactions is
left out of the pass. When λ is chosen on these, the judges' rows are taken out of the sums and put in whole,
so that the model is fitted on everything. A judge is no centre: a centre's row is whole, and would show what
is to be guessed. Only where most users are centres do these judge as well: λ is then chosen with the centres'
rows shortened too, and a second pass fits the model.

The model knows its centres and α, and nothing of the other users: its size does not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from infrec import machine
from infrec.data import Interactions, Vocabulary
from infrec.data.partitioned import PartitionedLog
from infrec.errors import ConfigError, DataError, SolveError
from infrec.kernels import devices, gram, nystrom
from infrec.kernels.collectives import Team
from infrec.kernels.resident import ResidentMatrix
from infrec.models.fitted import Fitted
from infrec.progress import Progress
from infrec.search import criterion
from infrec.search.criterion import Candidate
from infrec.search.tune import NOTHING_HELD_OUT, first_solved
from infrec.settings import AUTO
from infrec.splits import hide
from infrec.splits.holdout import INNER_SEED

if TYPE_CHECKING:
    from infrec.models.infinite_ae import InfiniteAE

HIDDEN = 0.2  # of a judge's interactions
_ENOUGH = 1000  # judges; or half of those there could be, where that is less
_JUDGED = 512  # judges whose scores exist at a time, on all processes together


class PartitionedFit:
    """One fit of ∞-AE; every process of the team runs it with the same model, and the first one has α."""

    def __init__(self, model: InfiniteAE, dataset: PartitionedLog, team: Team, progress: Progress) -> None:
        self.model, self.dataset, self.team, self.progress = model, dataset, team, progress
        self.settings = model.settings
        self.given = model.given_centres(dataset.items)
        s, counts = self.settings, dataset.user_counts
        if not int(counts.sum()):
            raise DataError("the dataset has no interactions; expected at least one.")
        if s.solver == "exact":
            raise ConfigError(
                "solver is 'exact', which needs all users in memory; a fit from partitions is 'nystrom'."
            )
        self.items = len(dataset.items)
        self.shares = [dataset.share(team.count, index) for index in range(team.count)]
        self.parts = self.shares[team.index]
        self.judged: dict[int, sp.csr_array] = {}  # rows of the judges, by partition
        self.held: dict[int, sp.csr_array] = {}  # and what they have to guess
        self.variants = [variant["reg"] for variant in model.variants()] if s.reg == AUTO else [s.reg]
        self.centre_rows: NDArray[np.integer] = np.zeros(0, np.int64)
        if self.given is None:
            self.centre_rows = nystrom.draw_centres(counts, s.centres, seed=s.seed)
        self.weights = np.zeros(self.items)  # of each item, added up by the pass
        self.share, self.centres_judge = 0.0, False
        judges: NDArray[np.integer] = np.zeros(0, np.int64)
        if len(self.variants) > 1:
            able = np.flatnonzero(counts >= 2)
            others = np.setdiff1d(able, self.centre_rows)
            self.centres_judge = len(others) < min(_ENOUGH, len(able) / 2)
            self.share = len(able) / len(counts)
            judges = criterion.draw_judges(
                able if self.centres_judge else others,
                criterion.JUDGES,
                "judges of a streamed fit",
                seed=INNER_SEED,
            )
        self._set_judges(judges)
        centres = len(self.centre_rows) if self.given is None else self.given.n_users
        machine.require_memory(
            devices.nystrom_fit(
                centres,
                self.items,
                processes=team.count,
                itemsize=np.dtype(s.dtype).itemsize,
                alphas=2 if self.most_judges else 1,
                kept=self.most_judges,
                rows=max((facts["users"] for facts in dataset.partitions), default=0),
                stored=max((facts["rows"] for facts in dataset.partitions), default=0),
            ),
            f"a streamed fit with {centres:,} centres and {self.items:,} items in {team.count} processes",
            "use fewer centres or more processes",
        )

    def _set_judges(self, judges: NDArray[np.integer]) -> None:
        """Who judges from now on: their rows in each partition."""
        self.judges_in = [_inside(judges, facts) for facts in self.dataset.partitions]
        self.judges = len(judges)
        self.most_judges = max(sum(len(self.judges_in[number]) for number in share) for share in self.shares)

    def run(self) -> Fitted:
        """Both readings, the choice of λ, and the solve."""
        centres = self._first_reading()
        candidates: list[Candidate] = []
        judged = self.judges > 0
        sums = self._pass(self.shortened if self.centres_judge else centres.matrix)
        if judged:
            candidates = self._candidates(sums)
            if self.centres_judge:
                del sums
                self._set_judges(np.zeros(0, np.int64))
                self.judged.clear()
                self.held.clear()
                sums = self._pass(centres.matrix)
            else:
                self._make_whole(sums)
        sums = sums.over_team()
        if not judged and len(self.variants) > 1:
            self.variants = [float(self.model.fallback["reg"])]
            candidates = [Candidate({"reg": self.variants[0]}, error=NOTHING_HELD_OUT)]
        reg, alpha = self._fitted(sums, candidates if judged else [])
        del sums
        gathered = self.team.gather_to_first(alpha, self.items)
        whole = None if gathered is None else ResidentMatrix(gathered)
        popularity = self.team.all_sum(self.weights).astype(np.float32)
        return Fitted(
            replace(self.settings, reg=float(reg), solver="nystrom"),
            centres,
            self.model.state_type(centres, whole, popularity=popularity),
            {"solver": "nystrom", "why": "the log was read partition by partition", "read": self._read()},
            candidates,
        )

    def _pass(self, centres: sp.csr_array) -> nystrom.Sums:
        """Every user, added up in the features over these centres."""
        features = devices.nystrom_features(centres, self.settings.kernel, self.settings.dtype)
        sums = features.sums(self.items, self.team)
        self.weights[:] = 0
        sums.add_all(
            ((x, x) for x in self._blocks()),
            rounds=self._rounds(features.block),
            total=sum(self.dataset.partitions[number]["users"] for number in self.parts),
            progress=self.progress,
        )
        return sums

    # ---- reading -------------------------------------------------------------------------------------------
    def _batch(self, number: int) -> sp.csr_array:
        return next(iter(self.dataset.batches([number])))

    def _first_reading(self) -> Interactions:
        """The rows of the centres, from every process; the judges' rows, of this one's partitions."""
        rows, short = [], []
        if self.given is None or self.judges:
            for number in self.parts:
                batch, judges = self._batch(number), self.judges_in[number]
                centres = _inside(self.centre_rows, self.dataset.partitions[number])
                rows.append(batch[centres])
                self.judged[number] = batch[judges]
                self.held[number] = held = _held_out(batch[judges])
                if self.centres_judge:
                    at = sp.csr_array(
                        (np.ones_like(judges), (judges, np.arange(len(judges)))),
                        shape=(batch.shape[0], len(judges)),
                    )
                    short.append(_without(batch, at @ held)[centres])
                self.progress("looking for the centres", number + 1 - self.parts.start, len(self.parts))
        if self.given is not None:
            return self.given
        if self.centres_judge:
            self.shortened = self._joined(short)
        users = Vocabulary(self.dataset.users.take(self.centre_rows))
        return Interactions(self._joined(rows), users, self.dataset.items, item_info=self.dataset.item_info)

    def _stacked(self, rows: Iterable[sp.csr_array]) -> sp.csr_array:
        nothing = sp.csr_array((0, self.items), dtype=np.float32)
        return sp.csr_array(sp.vstack([nothing, *rows], format="csr"))

    def _joined(self, rows: Iterable[sp.csr_array]) -> sp.csr_array:
        """The rows of every process, in order."""
        own = self._stacked(rows)
        counts, indices, data = (
            self.team.concatenate(part) for part in (np.diff(own.indptr), own.indices, own.data)
        )
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return sp.csr_array((data, indices, indptr), shape=(len(counts), self.items))

    def _blocks(self) -> Iterator[sp.csr_array]:
        """The pass: every user of this process, the judges by themselves and without what they have to guess.

        Blocks never depend on which process has a partition, so neither do the sums.
        """
        for number in self.parts:
            batch, judges = self._batch(number), self.judges_in[number]
            self.weights += batch.sum(axis=0, dtype=np.float64)
            if len(judges):
                yield batch[np.delete(np.arange(batch.shape[0]), judges)]
                yield self._shown(number)
            else:
                yield batch

    def _shown(self, number: int) -> sp.csr_array:
        """The rows of a partition's judges less what is held out."""
        return _without(self.judged[number], self.held[number])

    def _rounds(self, size: int, *, judges: bool = False) -> int:
        """The most blocks that any process has: of all its users, or of its judges."""

        def blocks(number: int) -> int:
            some = len(self.judges_in[number])
            others = 0 if judges else self.dataset.partitions[number]["users"] - some
            return -(-some // size) + -(-others // size)

        return max(sum(map(blocks, share)) for share in self.shares)

    def _read(self) -> dict[str, Any]:
        """Partitions and bytes that this process read, of all there are."""
        partitions, files = self.dataset.partitions, self.dataset.manifest["files"]
        mine = [partitions[number] for number in self.parts]
        return {
            "partitions": len(mine),
            "of_partitions": len(partitions),
            "users": sum(facts["users"] for facts in mine),
            "rows": sum(facts["rows"] for facts in mine),
            "of_rows": sum(facts["rows"] for facts in partitions),
            "bytes": sum(files[facts["file"]]["bytes"] for facts in mine),
        }

    # ---- λ -------------------------------------------------------------------------------------------------
    def _candidates(self, sums: nystrom.Sums) -> list[Candidate]:
        """How well each λ ranks what the judges have to guess."""
        system, features = sums.over_team(), sums.features
        shown = self._stacked(map(self._shown, self.parts))
        held = self._stacked(self.held[number] for number in self.parts)
        centres = gram.Centres.of(features.rows, features.dtype)
        step = max(1, _JUDGED // self.team.count)
        starts = range(0, self.most_judges, step)
        kernels = [centres.kernel_rows(features.kernel, shown[at : at + step]) for at in starts]
        candidates: list[Candidate] = []
        for reg in self.variants:
            score, error = None, None
            try:
                scores = self.team.scorer(self._solve(system, reg), self.items)
            except SolveError as failure:
                error = str(failure)
            else:
                hits = 0.0
                for at, kernel in zip(starts, kernels, strict=True):
                    short = step - len(kernel)  # every process brings equally many rows
                    got = scores(np.pad(kernel, ((0, short), (0, 0))) if short else kernel)[: len(kernel)]
                    if len(kernel):
                        some = slice(at, at + step)
                        hits += float(criterion.quality(got, shown[some], held[some], "HR").sum())
                total = float(self.team.all_sum(np.array([hits]))[0])
                score = 100.0 * self.share * total / self.judges
            candidates.append(Candidate({"reg": reg}, score, error))
            self.progress("choose settings", len(candidates), len(self.variants), reg=reg, score=score)
        if all(one.score is None for one in candidates):
            raise SolveError(f"all {len(candidates)} values of reg failed; the last: {candidates[-1].error}")
        return candidates

    def _fitted(self, sums: nystrom.Sums, candidates: list[Candidate]) -> tuple[float, NDArray[Any]]:
        """λ and α of the best candidate that can be solved; of the one λ there is where none was judged."""

        def solved(settings: Mapping[str, Any]) -> tuple[float, NDArray[Any]]:
            return settings["reg"], self._solve(sums, settings["reg"])

        return first_solved(candidates, solved) if candidates else solved({"reg": self.variants[0]})

    def _solve(self, sums: nystrom.Sums, reg: float) -> NDArray[Any]:
        """This process's columns of α; an error on every process where it failed on one."""
        alpha, error = None, "the solve failed on another process"
        try:
            alpha = sums.solve(float(reg))
        except SolveError as failure:
            error = str(failure)
        if self.team.all_sum(np.array([float(alpha is None)]))[0] or alpha is None:
            raise SolveError(error)
        return alpha

    def _make_whole(self, sums: nystrom.Sums) -> None:
        """The judges' shortened rows out of the sums, their whole rows in."""
        rounds = self._rounds(sums.features.block, judges=True)
        for rows, sign in ((self._shown, -1), (self.judged.__getitem__, 1)):
            sums.add_all(((some, some) for some in map(rows, self.parts)), rounds=rounds, sign=sign)


def _inside(users: NDArray[Any], facts: Any) -> NDArray[Any]:
    """Which rows of a partition these users are; the users are sorted."""
    first = facts["first_user"]
    low, high = np.searchsorted(users, (first, first + facts["users"]))
    return users[low:high] - first


def _held_out(rows: sp.csr_array) -> sp.csr_array:
    """A fifth of each row's entries, the same whichever process asks."""
    if not rows.shape[0]:
        return rows
    log = Interactions(rows.copy(), Vocabulary.numbered(rows.shape[0]), Vocabulary.numbered(rows.shape[1]))
    return hide(log, share=HIDDEN, seed=INNER_SEED)[1].matrix


def _without(rows: sp.csr_array, held: sp.csr_array) -> sp.csr_array:
    left = sp.csr_array(rows - held)  # equal numbers: the difference is exactly 0
    left.eliminate_zeros()
    return left
