"""AR-CF's users: made by a generator that learns, against a discriminator, what real users look like.

Chae, Kim, Chau, Kim: "AR-CF: Augmenting Virtual Users and Items in Collaborative Filtering for Addressing
Cold-Start Problems" (SIGIR 2020) has two conditional GANs, one for users and one for items; this is the one
for users. A user is made for the profile of a real one, drawn without repetition, and noise. Our logs bring
no profiles (age, occupation), so these are read off the histories: see `adversaries.profiles`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from infrec.data import Interactions, Vocabulary
from infrec.data.interactions import canonical
from infrec.errors import ConfigError, NotFittedError
from infrec.models.gradient_model import Trainable
from infrec.progress import Progress, silent
from infrec.randomness import generator as stream
from infrec.samplers.ar_cf_networks import Adversaries, generator, profiles
from infrec.settings import Settings, setting

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 512  # users that are made at a time


@dataclass(frozen=True)
class ARCFSettings(Settings):
    """How the generator and its opponent are built and trained."""

    hidden: int = setting(256, "width of the layers", least=1)
    latent: int = setting(32, "numbers of noise", least=1)
    profile: int = setting(32, "numbers of a user's profile", least=2)
    rate: float = setting(0.001, "learning rate of Adam", above=0)
    penalty: float = setting(10.0, "weight of the penalty on the discriminator's gradient", least=0)
    epochs: int = setting(60, "how long they train", least=1)
    seed: int = setting(42, "seed of the start and of all draws", least=0)


class ARCF(Trainable):
    """A generator of users: `ARCF(epochs=100).fit(log).generate(500)`. Trained by the common trainer."""

    name: ClassVar[str] = "ar-cf"
    every: ClassVar[int] = 1  # nothing is validated: there is no early stopping
    patience: ClassVar[int] = 1
    most_epochs: ClassVar[int] = 0

    def __init__(self, **settings: Any) -> None:
        ARCFSettings.check_names(settings, self.name)
        self.settings = ARCFSettings(**settings)
        self.parameters: dict[str, NDArray[np.float32]] = {}
        # What is kept of the log: not the log itself, which may be forgotten.
        self._profiles: NDArray[np.float32] | None = None
        self._items: Vocabulary | None = None
        self._item_info: pa.Table | None = None

    # ---- what the trainer asks for -------------------------------------------------------------------------
    @property
    def selected(self) -> dict[str, Any]:
        return self.settings.to_dict()

    def program(self, log: Interactions) -> Adversaries:
        return Adversaries(self.settings.hidden, self.settings.latent, self.settings.profile)

    def hyper(self, log: Interactions) -> dict[str, float]:
        return {"rate": self.settings.rate, "penalty": self.settings.penalty}

    def with_parameters(
        self, log: Interactions, trained: Mapping[str, NDArray[np.float32]], epochs: int
    ) -> Self:
        """The generator alone, without the padding of its items."""
        other = copy.copy(self)
        other._profiles = profiles(log, self.settings.profile)
        other._items, other._item_info = log.items, log.item_info
        other.parameters = {name: array for name, array in trained.items() if name.startswith("g.")}
        other.parameters["g.out"] = trained["g.out"][:, : log.n_items]
        other.parameters["g.items"] = trained["g.items"][: log.n_items]
        return other

    # ---- what everybody asks for ---------------------------------------------------------------------------
    def fit(
        self,
        log: Interactions,
        *,
        progress: Progress = silent,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Train on a log; `checkpoint` is a directory from which a killed fit goes on when called again."""
        from infrec.models.trainer import Training

        made: ARCF = Training(self, log, checkpoint=checkpoint).run(progress=progress).best
        self.parameters, self._profiles = made.parameters, made._profiles
        self._items, self._item_info = made._items, made._item_info
        return self

    def generate(self, users: int) -> Interactions:
        """So many users, numbered, over the items of the log. Fewer of them are the first of more."""
        if not isinstance(users, int) or users < 1:
            raise ConfigError(f"users is {users!r}; expected a whole number of at least 1.")
        blocks = [self._block(at) for at in range(-(-users // BLOCK))]
        return self._interactions(blocks, users)

    def generate_share(self, interactions: float) -> Interactions:
        """The fewest users that together have so many interactions, from the front."""
        blocks: list[sp.csr_array] = []
        held = np.zeros(0, np.int64)
        while not len(held) or held[-1] < interactions:
            blocks.append(self._block(len(blocks)))
            held = np.cumsum(np.concatenate([np.diff(block.indptr) for block in blocks]))
        return self._interactions(blocks, int(np.searchsorted(held, interactions)) + 1)

    def chances(self, given: NDArray[np.floating], z: NDArray[np.floating]) -> NDArray[np.float32]:
        """The chance of each item for users of these profiles with this noise."""
        logits = generator(self.parameters, z, given, lambda h: np.maximum(h, 0))
        return (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)

    def _block(self, at: int) -> sp.csr_array:
        """Users at·BLOCK to (at+1)·BLOCK, each with an item at least."""
        if self._profiles is None:
            raise NotFittedError("ar-cf has not seen a log yet; call fit first.")
        rng = stream(self.settings.seed, "ar-cf", str(at))
        # Everybody's profile comes up once before anybody's comes up again.
        start, n = at * BLOCK, len(self._profiles)
        orders = [
            stream(self.settings.seed, "ar-cf", f"round {lap}").permutation(n)
            for lap in range(start // n, (start + BLOCK - 1) // n + 1)
        ]
        who = np.concatenate(orders)[start - start // n * n :][:BLOCK]
        z = rng.standard_normal((BLOCK, self.settings.latent), dtype=np.float32)
        chances = self.chances(self._profiles[who], z)
        rows = rng.random(chances.shape, dtype=np.float32) < chances
        empty = np.flatnonzero(~rows.any(axis=1))
        rows[empty, chances[empty].argmax(axis=1)] = True
        return sp.csr_array(rows, dtype=np.float32)

    def _interactions(self, blocks: list[sp.csr_array], users: int) -> Interactions:
        assert self._items is not None
        rows = canonical(sp.csr_array(sp.vstack(blocks, format="csr")[:users]))
        return Interactions(rows, Vocabulary.numbered(users), self._items, item_info=self._item_info)


def untrained(log: Interactions, **settings: Any) -> ARCF:
    """A generator before its first step: what a trained one must be told apart from."""
    from infrec.models.trainer import Training

    return Training(ARCF(**settings), log).model()


_FITTED: WeakKeyDictionary[Interactions, dict[ARCFSettings, ARCF]] = WeakKeyDictionary()


def fitted(log: Interactions, progress: Progress = silent, **settings: Any) -> ARCF:
    """A generator for this log: trained once in a process, however many users are asked for."""
    asked = ARCF(**settings)
    known = _FITTED.setdefault(log, {})
    if asked.settings not in known:
        known[asked.settings] = asked.fit(log, progress=progress)
    return known[asked.settings]
