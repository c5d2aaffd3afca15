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

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from infrec import machine
from infrec.data import Interactions, Vocabulary
from infrec.data.partitioned import PartitionedLog
from infrec.errors import ConfigError, DataError, SolveError
from infrec.kernels import devices, gram, nystrom
from infrec.kernels.collectives import SingleProcess, Team
from infrec.models.centres import choose_rows
from infrec.models.state import Fitted
from infrec.progress import Progress, silent
from infrec.search import criterion
from infrec.search.criterion import Candidate
from infrec.splits import hide
from infrec.splits.holdout import INNER_SEED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from infrec.models.infinite_ae import InfiniteAE

HIDDEN = 0.2  # of a judge's interactions
_ENOUGH = 1000  # judges; or half of those there could be, where that is less
_RUNTIME = 40_000_000  # bytes that JAX compiles and keeps for exchanging arrays between processes
_JUDGED = 512  # judges whose scores exist at a time, on all processes together


def fit(
    model: InfiniteAE, dataset: PartitionedLog, *, team: Team | None = None, progress: Progress = silent
) -> Fitted:
    """Fit ∞-AE; every process of the team calls it with the same model, and the first one has α."""
    return _Fit(model, dataset, team or SingleProcess(), progress).run()


class _Fit:
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
        self.parts = dataset.share(team.count, team.index)
        self.variants = [variant["reg"] for variant in model.variants()] if s.reg == "auto" else [s.reg]
        self.centre_rows = (
            np.zeros(0, np.int64) if self.given is not None else choose_rows(counts, s.centres, seed=s.seed)
        )
        self.judged = self.held = self.shortened = sp.csr_array((0, self.items), dtype=np.float32)
        self.weights = np.zeros(self.items)  # of each item, added up by the pass
        self.judges: NDArray[np.integer] = np.zeros(0, np.int64)
        self.share, self.centres_judge = 0.0, False
        if len(self.variants) > 1:
            able = np.flatnonzero(counts >= 2)
            others = np.setdiff1d(able, self.centre_rows)
            self.centres_judge = len(others) < min(_ENOUGH, len(able) / 2)
            self.share = len(able) / len(counts)
            self.judges = criterion.draw_judges(
                able if self.centres_judge else others,
                criterion.JUDGES,
                "judges of a streamed fit",
                seed=INNER_SEED,
            )
        self.judges_of = [self._mine(self.judges, index).sum() for index in range(team.count)]
        centres = len(self.centre_rows) if self.given is None else self.given.n_users
        machine.require_memory(
            memory_needed(
                centres,
                self.items,
                processes=team.count,
                itemsize=np.dtype(s.dtype).itemsize,
                kept=int(max(self.judges_of)),
                rows=max((facts["users"] for facts in dataset.partitions), default=0),
                stored=max((facts["rows"] for facts in dataset.partitions), default=0),
            ),
            f"a streamed fit with {centres:,} centres and {self.items:,} items in {team.count} processes",
            "use fewer centres or more processes",
        )

    def run(self) -> Fitted:
        centres = self._first_reading()
        candidates: list[Candidate] = []
        best = float(self.variants[0])
        if len(self.variants) > 1 and not len(self.judges):
            best = 5.0
            reason = "used as it is: no user has enough interactions to hold one out"
            candidates = [Candidate({"reg": best}, error=reason)]
        sums = self._pass(self.shortened if self.centres_judge else centres.matrix)
        if len(self.judges):
            best, candidates = self._chosen(sums)
            if self.centres_judge:
                del sums
                self.judges, self.judged, self.held = self.judges[:0], self.judged[:0], self.held[:0]
                sums = self._pass(centres.matrix)
            else:
                self._make_whole(sums)
        sums = sums.over_team()
        ranked = criterion.best_first(candidates)
        alpha, error = self._solved(sums, best)
        while alpha is None and len(ranked) > 1:
            failed = ranked.pop(0)
            candidates[candidates.index(failed)] = failed.without_solution(str(error))
            best = float(ranked[0].settings["reg"])
            alpha, error = self._solved(sums, best)
        if alpha is None:
            raise SolveError(error or "the solve failed")
        del sums
        whole = self.team.gather_to_first(alpha, self.items)
        popularity = self.team.all_sum(self.weights).astype(np.float32)
        return Fitted(
            replace(self.settings, reg=best, solver="nystrom"),
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
    def _first_reading(self) -> Interactions:
        """The rows of the centres, from every process; the judges' rows, of this one's partitions."""
        mine, short, judged, held = [], [], [], []
        nothing = sp.csr_array((0, self.items), dtype=np.float32)
        if self.given is None or len(self.judges):
            for number in self.parts:
                facts = self.dataset.partitions[number]
                batch = next(iter(self.dataset.batches([number])))
                centres, judges = _inside(self.centre_rows, facts), _inside(self.judges, facts)
                mine.append(batch[centres])
                judged.append(batch[judges])
                held.append(_held_out(judged[-1]))
                if self.centres_judge:
                    at = sp.csr_array(
                        (np.ones_like(judges), (judges, np.arange(len(judges)))),
                        shape=(batch.shape[0], len(judges)),
                    )
                    short.append(_without(batch, at @ held[-1])[centres])
                self.progress("looking for the centres", number + 1 - self.parts.start, len(self.parts))
        self.judged = sp.csr_array(sp.vstack([nothing, *judged], format="csr"))
        self.held = sp.csr_array(sp.vstack([nothing, *held], format="csr"))
        if self.given is not None:
            return self.given
        if self.centres_judge:
            self.shortened = self._joined(sp.csr_array(sp.vstack([nothing, *short], format="csr")))
        matrix = self._joined(sp.csr_array(sp.vstack([nothing, *mine], format="csr")))
        users = Vocabulary(self.dataset.users.take(self.centre_rows))
        return Interactions(matrix, users, self.dataset.items, item_info=self.dataset.item_info)

    def _joined(self, own: sp.csr_array) -> sp.csr_array:
        """The rows of every process, in order."""
        counts, indices, data = (
            self.team.concatenate(part) for part in (np.diff(own.indptr), own.indices, own.data)
        )
        indptr = np.concatenate([[0], np.cumsum(counts)])
        return sp.csr_array((data, indices, indptr), shape=(len(counts), self.items))

    def _blocks(self) -> Iterator[sp.csr_array]:
        """The pass: every user of this process, the judges by themselves and without what they have to guess.

        Blocks never depend on which process has a partition, so neither do the sums.
        """
        for number, shown in zip(self.parts, self._by_partition(self._shown()), strict=True):
            batch = next(iter(self.dataset.batches([number])))
            self.weights += batch.sum(axis=0, dtype=np.float64)
            judges = _inside(self.judges, self.dataset.partitions[number])
            if len(judges):
                batch = batch[np.delete(np.arange(batch.shape[0]), judges)]
            yield batch
            yield shown

    def _rounds(self, size: int, *, judges: bool = False) -> int:
        """The most blocks that any process has: of all its users, or of its judges."""

        def blocks(number: int) -> int:
            facts = self.dataset.partitions[number]
            some = len(_inside(self.judges, facts))
            return -(-some // size) + (0 if judges else -(-(facts["users"] - some) // size))

        shares = (self.dataset.share(self.team.count, index) for index in range(self.team.count))
        return max(sum(map(blocks, share)) for share in shares)

    def _shown(self) -> sp.csr_array:
        """The judges' rows less what is held out."""
        return _without(self.judged, self.held)

    def _by_partition(self, rows: sp.csr_array) -> Iterator[sp.csr_array]:
        """The judges' rows of each of this process's partitions."""
        seen = 0
        for number in self.parts:
            count = len(_inside(self.judges, self.dataset.partitions[number]))
            yield rows[seen : seen + count]
            seen += count

    def _mine(self, users: NDArray[Any], index: int) -> NDArray[np.bool_]:
        """Which users are in the partitions of a process."""
        share = self.dataset.share(self.team.count, index)
        if not len(share):
            return np.zeros(len(users), bool)
        first = self.dataset.partitions[share[0]]["first_user"]
        last = self.dataset.partitions[share[-1]]
        return (users >= first) & (users < last["first_user"] + last["users"])

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
    def _chosen(self, sums: nystrom.Sums) -> tuple[float, list[Candidate]]:
        """The λ that ranks what the judges have to guess best; the last of equals, as everywhere."""
        system, features, shown = sums.over_team(), sums.features, self._shown()
        centres = gram.Centres.of(features.rows, features.dtype)
        step = max(1, _JUDGED // self.team.count)
        starts = range(0, int(max(self.judges_of)), step)
        kernels = [centres.kernel_rows(features.kernel, shown[at : at + step]) for at in starts]
        best, best_score, candidates = None, -1.0, []
        for reg in self.variants:
            alpha, error = self._solved(system, float(reg))
            score = None
            if alpha is not None:
                scores = self.team.scorer(alpha, self.items)
                hits = 0.0
                for at, kernel in zip(starts, kernels, strict=True):
                    short = step - len(kernel)  # every process brings equally many rows
                    got = scores(np.pad(kernel, ((0, short), (0, 0))) if short else kernel)[: len(kernel)]
                    if len(kernel):
                        some = slice(at, at + step)
                        hits += float(criterion.quality(got, shown[some], self.held[some], "HR").sum())
                total = float(self.team.all_sum(np.array([hits]))[0])
                score = 100.0 * self.share * total / len(self.judges)
                if score >= best_score:
                    best, best_score = float(reg), score
            candidates.append(Candidate({"reg": reg}, score, error))
            self.progress("choose settings", len(candidates), len(self.variants), reg=reg, score=score)
        if best is None:
            raise SolveError(f"all {len(candidates)} values of reg failed; the last: {candidates[-1].error}")
        return best, candidates

    def _solved(self, system: nystrom.Sums, reg: float) -> tuple[NDArray[Any] | None, str | None]:
        """This process's columns of α; nothing on any process where it failed on one."""
        alpha, error = None, None
        try:
            alpha = system.solve(reg)
        except SolveError as failure:
            error = str(failure)
        if self.team.all_sum(np.array([float(error is not None)]))[0]:
            return None, error or "the solve failed on another process"
        return alpha, None

    def _make_whole(self, sums: nystrom.Sums) -> None:
        """The judges' shortened rows out of the sums, their whole rows in."""
        rounds = self._rounds(sums.features.block, judges=True)
        for rows, sign in ((self._shown(), -1), (self.judged, 1)):
            blocks = ((some, some) for some in self._by_partition(rows))
            sums.add_all(blocks, rounds=rounds, sign=sign)


def memory_needed(
    centres: int,
    items: int,
    *,
    processes: int = 1,
    itemsize: int = 4,
    kept: int = 0,
    rows: int = 0,
    stored: int = 0,
) -> int:
    """Bytes of a fit from partitions in one of several processes, the same however many partitions there are.

    Those of `devices.nystrom_fit`, with this process's share of the items and `kept` kernel rows of its
    judges; what is exchanged at a time; a partition of `rows` users and `stored` interactions as it is read.
    """
    square, own = centres * centres, centres * (-(-items // processes))
    block = min(nystrom.block_size(centres), rows or nystrom.block_size(centres))
    several = processes > 1
    exchanged = 4 * itemsize * centres * min(items, 1024) if several else 0
    one_pass = itemsize * (square + block * centres) + exchanged + 40 * stored
    solve = 8 * ((1 + several) * square + 2 * min(own, 2048 * centres))
    solve += itemsize * ((2 if kept else 1) * own + kept * centres)
    last = itemsize * (own + centres * items) if several else 0
    return 8 * (2 * square + own) + itemsize * square + max(one_pass, solve, last) + several * _RUNTIME


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
