"""The loop: determinism, checkpoints that resume to the same bits, the lock, the ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from infrec.checkpoints import fingerprint, locked
from infrec.data import Interactions
from infrec.distillation import DistillSettings, Interrupted, distill
from infrec.distillation.run import Run
from infrec.distillation.settings import MODES
from infrec.distillation.validation import Verdict
from infrec.errors import ArtifactError, ConfigError, SolveError
from tests import hostile

pytestmark = pytest.mark.usefixtures("compiled_quickly")

STEPS = 12
SMALL = {"users": 6, "per_user": 5, "steps": STEPS, "validate_every": 4, "patience": None}


def _run(log: Interactions, *, seed: int = 1, **options):
    config = {**SMALL, **{k: v for k, v in options.items() if k in DistillSettings.__dataclass_fields__}}
    rest = {k: v for k, v in options.items() if k not in DistillSettings.__dataclass_fields__}
    return distill(log, seed=seed, **config, **rest)


@pytest.mark.parametrize("mode", MODES)
def test_deterministic_by_seed(small_log: Interactions, mode: str) -> None:
    options = {"mode": mode, "gamma": 20} if mode in ("soft", "published") else {"mode": mode}
    one, again, other = (_run(small_log, seed=seed, **options) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.matrix.toarray(), again.matrix.toarray())
    assert one.about["history"] == again.about["history"]
    assert not np.array_equal(one.matrix.toarray(), other.matrix.toarray())


def test_discrete_is_exactly_zero_and_one_with_the_sizes_asked_for(small_log: Interactions) -> None:
    found = _run(small_log, mode="discrete")
    assert set(np.unique(found.matrix.toarray())) == {0.0, 1.0}
    assert found.discrete
    assert found.n_interactions == 30


def test_weighted_has_few_levels_and_rows_of_learnt_size(small_log: Interactions) -> None:
    """As many interactions as asked for in all, a fifth of the mean in each row or more, up to 16 weights."""
    found = _run(small_log, mode="weighted", per_user=10)
    assert found.n_interactions == 60 and found.user_counts.min() >= 2 and len(set(found.user_counts)) > 1
    halvings = -2 * np.log2(found.matrix.data)
    np.testing.assert_allclose(halvings, halvings.round(), atol=1e-5)
    assert not found.discrete and halvings.min() >= 0 and halvings.max() <= 15


def test_interrupted_anywhere_resumes_to_the_same_bits(small_log: Interactions, tmp_path: Path) -> None:
    """SIGTERM after each step in turn; every time the run saves, raises, and goes on from there."""
    whole = _run(small_log)
    steps_seen = []

    def stop_after_one(stage: str, done: float, total: float | None = None, **facts: object) -> None:
        if stage != "distil":
            return
        steps_seen.append(done)
        if done and (len(steps_seen) < 2 or steps_seen[-2] != done):
            os.kill(os.getpid(), signal.SIGTERM)

    ends = 0
    while True:
        try:
            resumed = _run(small_log, run_directory=tmp_path / "run", resume=True, progress=stop_after_one)
            break
        except Interrupted as stopped:
            assert "resumes from there" in str(stopped)
            ends += 1
            assert ends < 50
    assert ends >= STEPS - 2
    np.testing.assert_array_equal(resumed.matrix.toarray(), whole.matrix.toarray())
    assert resumed.about["history"] == whole.about["history"]
    assert resumed.about["validation"] == whole.about["validation"]


def test_kill_9_resumes_to_the_same_bits(small_log: Interactions, tmp_path: Path) -> None:
    """A process that saves after every step is killed as it goes; what it left resumes to the same result."""
    whole = _run(small_log)
    np.save(tmp_path / "log.npy", small_log.matrix.toarray())
    script = textwrap.dedent(
        f"""
        import sys, numpy as np
        from infrec.data import Interactions
        from infrec import checkpoints
        from infrec.distillation import distill
        checkpoints.SECONDS_BETWEEN_CHECKPOINTS = 0.0
        log = Interactions.from_csr(np.load(sys.argv[1]), users=[f"u{{n:03}}" for n in range(120)])
        def say(stage, done, total=None, **facts):
            print(int(done), flush=True)
        distill(log, seed=1, run_directory=sys.argv[2], progress=say, **{SMALL!r})
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log.npy"), str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) == 7:
            break
    time.sleep(0.005)  # somewhere inside a step or a save
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = _run(small_log, run_directory=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.matrix.toarray(), whole.matrix.toarray())
    assert resumed.about["history"] == whole.about["history"]


def test_a_finished_run_is_not_done_again(small_log: Interactions, tmp_path: Path) -> None:
    first = _run(small_log, run_directory=tmp_path / "run")
    calls = []
    again = _run(
        small_log, run_directory=tmp_path / "run", resume=True, progress=lambda *a, **k: calls.append(a)
    )
    assert not calls
    np.testing.assert_array_equal(first.matrix.toarray(), again.matrix.toarray())


def test_a_run_directory_is_not_overwritten_or_mixed_up(small_log: Interactions, tmp_path: Path) -> None:
    _run(small_log, run_directory=tmp_path / "run")
    with pytest.raises(ConfigError, match="holds the checkpoint of an earlier run"):
        _run(small_log, run_directory=tmp_path / "run")
    with pytest.raises(ConfigError, match=r"a run with hidden = 0\.2, this one has 0\.4"):
        _run(small_log, run_directory=tmp_path / "run", resume=True, hidden=0.4)
    other = Interactions.from_csr(
        small_log.matrix[::-1], users=small_log.users.ids, items=small_log.items.ids
    )
    with pytest.raises(ConfigError, match="a run with data"):
        _run(other, run_directory=tmp_path / "run", resume=True)


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    with locked(tmp_path / "run", "distillation"):
        script = "from pathlib import Path; from infrec.checkpoints import locked\n"
        script += f"with locked(Path({str(tmp_path / 'run')!r}), 'distillation'): pass"
        ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert ran.returncode != 0
        assert f"in use by another distillation (process {os.getpid()})" in ran.stderr
    with locked(tmp_path / "run", "distillation"):
        pass


def test_lock_in_this_process_too(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "run", "distillation"),
        pytest.raises(ArtifactError, match="in use"),
        locked(tmp_path / "run", "distillation"),
    ):
        pass


def test_handlers_are_restored(small_log: Interactions, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    _run(small_log, run_directory=tmp_path / "run")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_the_best_summary_is_kept_and_patience_ends_the_run(small_log: Interactions) -> None:
    """A judge that likes step 4 best: the run ends `patience` steps later and returns that summary."""
    seen = []

    def judge(x_hat, grid) -> Verdict:
        seen.append(np.asarray(x_hat))
        value = 10.0 if len(seen) == 2 else 1.0
        return Verdict(value, grid[3], {"NDCG@100": value})

    found = _run(small_log, on_validate=judge, patience=6, steps=100)
    assert found.about["best_step"] == 4
    assert found.about["steps"] == 12  # the first validation that is 6 steps or more after the best
    np.testing.assert_array_equal(found.matrix.toarray(), seen[1])


@pytest.mark.parametrize(("average", "moves"), [(0.0, True), (1 - 1e-7, False)])
def test_the_running_mean_of_the_logits_is_judged_and_released(
    small_log: Interactions, average: float, moves: bool
) -> None:
    """With a decay of nearly 1 the mean stays where the logits began, however far they go themselves."""
    judged = []

    def judge(x_hat, grid) -> Verdict:
        judged.append(np.asarray(x_hat))
        return Verdict(float(len(judged)), grid[0], {})

    made = _run(small_log, mode="soft", gamma=20, average=average, on_validate=judge)
    apart = [float(np.abs(x_hat - judged[0]).max()) for x_hat in (judged[-1], made.matrix.toarray())]
    assert all((one > 0.01) is moves for one in apart)


def test_lambda_follows_validation(small_log: Interactions) -> None:
    regs = []

    def judge(x_hat, grid) -> Verdict:
        regs.append(grid)
        return Verdict(1.0, 5.0, {})

    found = _run(small_log, on_validate=judge)
    assert [row["reg"] for row in found.about["history"]] == [5.0] * len(regs)


def test_steps_go_on_with_the_lambda_that_was_chosen_on_the_way(small_log: Interactions) -> None:
    """A judge that wants λ = 40 changes what the steps after it learn; with rechoose=False it does not."""

    def trained(wanted: float, rechoose: bool) -> np.ndarray:
        def judge(x_hat, grid) -> Verdict:
            seen.append(np.asarray(x_hat))
            return Verdict(float(len(seen)), wanted, {})  # the last is the best, and is kept

        seen: list[np.ndarray] = []
        found = _run(small_log, on_validate=judge, rechoose=rechoose, mode="soft", gamma=20, reg=0.1)
        assert found.about["best_step"] == STEPS
        return np.stack([seen[1], seen[-1]])

    (small, large), fixed = (trained(reg, True) for reg in (0.1, 40.0)), trained(40.0, False)
    np.testing.assert_array_equal(small, fixed)
    np.testing.assert_array_equal(small[0], large[0])  # up to the first validation after a step: reg=0.1
    assert abs(small[1] - large[1]).max() > 1e-3


def test_mini_batches(small_log: Interactions) -> None:
    """They depend on the seed alone; one that holds everybody is the full batch."""
    one = _run(small_log, batch=40, mode="soft", gamma=20)
    again = _run(small_log, batch=40, mode="soft", gamma=20)
    full = _run(small_log, mode="soft", gamma=20)
    np.testing.assert_array_equal(one.matrix.toarray(), again.matrix.toarray())
    assert not np.array_equal(one.matrix.toarray(), full.matrix.toarray())
    everybody = _run(small_log, batch=120, mode="soft", gamma=20)
    np.testing.assert_array_equal(everybody.matrix.toarray(), full.matrix.toarray())


def test_a_lambda_too_small_is_raised_and_an_impossible_one_explained(small_log: Interactions) -> None:
    """Equal rows at λ = 0: the first steps find no finite loss, and go on with the next λ of the grid."""
    config = DistillSettings.of("discrete", **SMALL, reg=0.0, reg_grid=(0.0, 1.0))
    config = config.resolved(n_users=120, n_items=60, interactions=small_log.n_interactions)
    loop = Run(small_log.matrix, config, lambda x, g: Verdict(1.0, 0.0, {})).loop
    loop.raise_reg()
    assert float(np.exp(loop.state.log_reg)) == pytest.approx(1.0)
    with pytest.raises(SolveError, match="the loss is not finite"):
        loop.raise_reg()


def test_fingerprints(small_log: Interactions) -> None:
    assert fingerprint(small_log.matrix) == fingerprint(small_log.matrix.copy())
    other = small_log.matrix.copy()
    other.data = other.data * 2
    assert fingerprint(other) != fingerprint(small_log.matrix)


def test_progress_says_what_a_live_view_shows(small_log: Interactions) -> None:
    facts = []
    _run(small_log, progress=lambda stage, done, total=None, **f: facts.append((stage, done, total, f)))
    stages = [f for f in facts if f[0] == "distil"]
    assert stages[-1][1:3] == (STEPS, STEPS)
    assert {"loss", "validation", "best", "best_step", "seconds_left"} <= set(stages[-1][3])
    assert np.isfinite(stages[-1][3]["loss"])


def test_a_judge_of_ones_own_may_count_downwards(small_log: Interactions) -> None:
    """A loss as a negative value: the best one is kept; what is no number is refused."""
    values = iter([-9.0, -3.0, -5.0])
    judged = distill(
        small_log,
        4,
        steps=2,
        validate_every=1,
        on_validate=lambda x_hat, grid: Verdict(next(values), 1.0, {"minus loss": 0.0}),
    )
    assert judged.n_users == 4 and judged.about["best_step"] == 1
    with pytest.raises(ConfigError, match="on_validate says nan at step 0"):
        distill(small_log, 4, steps=1, on_validate=lambda x_hat, grid: Verdict(float("nan"), 1.0, {}))


DAMAGE: list[Callable[[Path], None]] = [
    lambda place: hostile.reseal(place, lambda d: d.update(seconds=float("inf"))),
    lambda place: hostile.reseal(place, lambda d: d.update(seconds=-1.0)),
    lambda place: hostile.reseal(place, lambda d: d["state"]["track"].update(step=10**6)),
    lambda place: hostile.reseal(place, lambda d: d["state"]["track"].update(best_metrics={"HR@10": "high"})),
    lambda place: hostile.reseal(
        place, lambda d: d["state"]["track"].pop("history") and d["state"]["track"].update(more=1)
    ),
    lambda place: hostile.reseal(place, lambda d: d.update(identity=5)),
    lambda place: hostile.change_array(place, "state.logits", lambda found: found[:-1]),
    lambda place: hostile.change_array(place, "state.averaged", lambda found: found.fill(np.nan)),
    lambda place: hostile.change_array(place, "state.adam.nu.0", lambda found: -found - 1),
    lambda place: hostile.change_array(place, "state.adam.count", lambda found: found.astype(np.float32)),
]


def test_a_checkpoint_whose_hashes_fit_and_whose_contents_do_not(
    small_log: Interactions, tmp_path: Path
) -> None:
    options = {"targets": "own", "steps": 1, "validate_every": 1}
    _run(small_log, run_directory=tmp_path / "run", **options)
    place = tmp_path / "run" / "checkpoint"
    honest = shutil.copytree(place, tmp_path / "honest")
    for damage in DAMAGE:
        shutil.rmtree(place)
        shutil.copytree(honest, place)
        damage(place)
        with pytest.raises(ArtifactError, match=r"is no sound|holds NaN|no manifest"):
            _run(small_log, run_directory=tmp_path / "run", resume=True, **options)
