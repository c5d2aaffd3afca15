"""How near released rows lie to real people: a smoke alarm, and labelled so.

Distances prove nothing: a release can be far from everybody and still tell who was in the log, and near to
somebody who was not. But exact copies, or rows much nearer to members than to the control, need no further
proof.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from infrec.privacy import groups as people
from infrec.privacy.groups import Groups
from infrec.privacy.matching import item_weights
from infrec.privacy.records import Neighbours
from infrec.randomness import generator


def neighbours(rows: sp.csr_array, groups: Groups, *, seed: int = 42) -> Neighbours:
    """Nearest members and nearest control of each released row, as many of the one as of the other."""
    everybody = groups.everybody
    weights = item_weights(np.bincount(everybody.indices, minlength=everybody.shape[1])) ** 2
    to_members = people.cosine(groups.members, rows, weights)
    likeness = {"members": float(np.median(to_members.max(axis=0)))}
    copies = int((to_members.max(axis=0) > 1 - 1e-5).sum())
    if not groups.measurable:
        return Neighbours(None, copies, likeness)
    rng = generator(seed, "as many members")
    n, m = groups.members.shape[0], groups.control.shape[0]
    some = to_members[rng.choice(n, min(n, m), replace=False)].max(axis=0)
    control = groups.control if m <= n else groups.control[rng.choice(m, n, replace=False)]
    to_control = people.cosine(control, rows, weights).max(axis=0)
    likeness |= {"as many members": float(np.median(some)), "control": float(np.median(to_control))}
    nearer = float((some > to_control).sum() + 0.5 * (some == to_control).sum())
    return Neighbours(nearer / rows.shape[0], copies, likeness)
