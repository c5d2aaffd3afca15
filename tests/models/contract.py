"""What every model promises: a model's test file subclasses it and says what the model should reach."""

from __future__ import annotations

import copy
import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from infrec import models
from infrec.data import Interactions
from infrec.errors import ArtifactError, ConfigError, DataError, NotFittedError
from infrec.metrics.ranking import hit_rate_at, top_k
from infrec.models import BiasOnly
from infrec.models.base import Recommender
from infrec.models.gradient_model import GradientModel
from infrec.splits import Split, holdout


class RecommenderContract:
    """Subclasses set `make` and ranges that a model falls outside of when it learns nothing or nonsense."""

    checkerboard_hits: int  # of 20 users, how many get their one missing item first
    scores_are_relative = False  # trained to rank: a score says nothing beside the others of its user
    small_log_hr10: tuple[float, float]  # mean test HR@10 in percent on small_log's holdout, seed 42

    def make(self) -> Recommender:
        """An unfitted model, with "auto" settings where it has them."""
        raise AssertionError("a subclass says which model")

    @pytest.fixture(scope="class")
    @classmethod
    def split(cls, small_log: Interactions) -> Split:
        return holdout(small_log, seed=42)

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, split: Split) -> Recommender:
        return cls().make().fit(split.train, validation=split.val)

    @pytest.fixture(scope="class")
    @classmethod
    def without_validation(cls, small_log: Interactions) -> Recommender:
        return cls().make().fit(small_log)

    @pytest.fixture(scope="class")
    @classmethod
    def of_checkerboard(cls, checkerboard: Interactions) -> Recommender:
        return cls().make().fit(checkerboard)

    # ---- quality ----------------------------------------------------------------------------------------
    def test_checkerboard(self, of_checkerboard: Recommender, checkerboard: Interactions) -> None:
        model = of_checkerboard
        first = top_k(model.score(checkerboard.matrix), 1, exclude=checkerboard.matrix)[:, 0]
        assert (first == np.arange(20)).sum() >= self.checkerboard_hits

    def test_quality_is_within_its_range(self, model: Recommender, split: Split) -> None:
        scores = model.score(split.test_context, users=split.train.users.ids)
        found = 100 * hit_rate_at(scores, split.test_context, split.test.matrix, 10).mean()
        low, high = self.small_log_hr10
        assert low <= found <= high

    # ---- settings ---------------------------------------------------------------------------------------
    def test_parameters_make_the_model_again(self, model: Recommender) -> None:
        """Those that were asked for, not those that a fit chose."""
        asked = self.make().get_params()
        assert list(asked) == list(inspect.signature(type(model)).parameters)
        assert model.get_params() == asked == type(model)(**asked).get_params(deep=False)

    def test_set_parameters(self, small_log: Interactions, model: Recommender) -> None:
        changed = copy.copy(model)
        numbers = {name: 3 for name, value in model.selected.items() if isinstance(value, int | float)}
        other = dict(list(numbers.items())[:1])
        assert changed.set_params(**other) is changed
        assert changed.get_params() == self.make().get_params() | other
        with pytest.raises(NotFittedError):
            changed.score(small_log.matrix)
        with pytest.raises(ConfigError, match="has no setting 'colour'"):
            changed.set_params(colour="red")
        assert changed.get_params() == self.make().get_params() | other

    def test_its_text_is_short(self, model: Recommender) -> None:
        assert repr(type(model)()) == f"{type(model).__name__}()"
        text = repr(model)
        assert text.endswith(f"fitted on {model.log.n_users:,} users × {model.log.n_items:,} items)")
        assert len(text) < 160

    # ---- fitting ----------------------------------------------------------------------------------------
    def test_before_fitting_it_says_so(self, small_log: Interactions) -> None:
        with pytest.raises(NotFittedError, match="not fitted"):
            self.make().score(small_log.matrix)

    def test_numbers_may_be_numpys(self, model: Recommender) -> None:
        """A sweep over an array brings them; a manifest could not hold them."""
        kinds = {int: np.int64, float: np.float32}
        numbers = {n: kinds[type(v)](v) for n, v in model.selected.items() if type(v) in kinds}
        settings = model.with_settings(**numbers).settings
        assert not any(isinstance(value, np.generic) for value in vars(settings).values())
        for name, value in numbers.items():
            assert getattr(settings, name) == value

    def test_auto_settings_are_chosen_and_recorded(self, model: Recommender) -> None:
        assert "auto" not in model.selected.values()
        tried = [candidate.settings for candidate in model.candidates]
        assert len(tried) == len(self.make().variants()) or tried == []
        best = max((c for c in model.candidates if c.score is not None), key=lambda c: c.score, default=None)
        if best is not None:
            assert best.settings.items() <= model.selected.items()

    def test_without_validation_it_is_fitted_on_everything(
        self, without_validation: Recommender, small_log: Interactions
    ) -> None:
        model = without_validation
        assert model.log.n_interactions == small_log.n_interactions
        assert "auto" not in model.selected.values()

    def test_fitting_again_forgets_the_first_time(
        self, without_validation: Recommender, checkerboard: Interactions
    ) -> None:
        again = without_validation.with_settings().fit(checkerboard)
        fresh = self.make().with_settings(**again.selected).fit(checkerboard)
        np.testing.assert_array_equal(again.score(checkerboard.matrix), fresh.score(checkerboard.matrix))

    def test_fitted_again_it_chooses_again(self, model: Recommender, split: Split) -> None:
        """What the first fit put in the place of "auto" is not what was asked for."""
        again = self.make().fit(split.val).fit(split.train, validation=split.val)
        assert again.selected == model.selected
        assert [c.settings for c in again.candidates] == [c.settings for c in model.candidates]
        np.testing.assert_array_equal(again.score(split.train.matrix), model.score(split.train.matrix))

    def test_a_failed_fit_changes_nothing(self, model: Recommender, small_log: Interactions) -> None:
        nothing = small_log.with_matrix(sp.csr_array(small_log.matrix.shape, dtype=np.float32))
        before = model.fitted
        with pytest.raises(DataError, match="no interactions"):
            model.fit(nothing)
        assert model.fitted is before

    def test_other_items_in_validation(self, small_log: Interactions, checkerboard: Interactions) -> None:
        if self.make().variants() != [{}]:
            with pytest.raises(DataError, match="other items"):
                self.make().fit(small_log, validation=checkerboard)

    @pytest.mark.parametrize(
        "likes",
        [
            np.ones((1, 6)),
            np.tile([1, 1, 0, 1, 0, 0], (9, 1)),
            np.eye(5),
            np.vstack([np.ones(6), np.eye(6)]),
            np.array([[1, 0, 0, 1]]),
            np.array([[0, 1, 0]]),
            np.array([[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 0]]),
        ],
        ids=[
            "one user with everything",
            "all identical",
            "one item each",
            "one has every item",
            "a single user",
            "one interaction",
            "a user with nothing and an item never seen",
        ],
    )
    def test_strange_logs(self, likes: np.ndarray) -> None:
        log = Interactions.from_csr(likes)
        model = self.make().fit(log)
        assert np.isfinite(model.score(log.matrix)).all()
        table = model.recommend(k=3)
        seen = {(u, i) for u, i in zip(*np.nonzero(likes), strict=True)}
        assert not seen & set(zip(table["user"], table["item"], strict=True))

    @pytest.mark.parametrize("weight", [0.0, 1e-6])
    def test_items_that_nobody_had_do_no_harm(self, small_log: Interactions, weight: float) -> None:
        """Fitted without a fifth of the items, as on a small sample, or with faded ones, of tiny weights:
        people who have some of these still get what their group likes. Of five items each, at most a tenth
        less than without them (600 items).
        """
        known = np.arange(60) % 5 != 0
        weights = np.where(known, 1.0, weight)
        model = self.make().fit(Interactions.from_csr(small_log.matrix.toarray() * weights))
        everything = small_log.matrix
        group = (np.arange(120) // 30)[:, None]
        without, with_them = (
            (top_k(model.score(sp.csr_array(rows)), 5, exclude=everything) // 15 == group).mean()
            for rows in (everything.toarray() * known, everything)
        )
        assert with_them >= without - 0.1

    # ---- scores -----------------------------------------------------------------------------------------
    def test_scores_are_finite_float32_of_the_right_shape(self, model: Recommender, split: Split) -> None:
        scores = model.score(split.train.matrix[:7])
        assert scores.shape == (7, split.train.n_items)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()

    def test_fitted_scores_are_the_scores(self, model: Recommender, split: Split) -> None:
        """A training user, by name and history, gets the scores the fit knows (float32: 1e-4)."""
        scores = model.score(split.train.matrix, users=split.train.users.ids)
        rows = np.array([3, 50, 4])
        np.testing.assert_allclose(model.fitted_scores(rows), scores[rows], atol=1e-4 * np.abs(scores).max())
        np.testing.assert_allclose(
            model.fitted_scores(slice(5, 9)), scores[5:9], atol=1e-4 * np.abs(scores).max()
        )

    def test_a_name_that_nobody_has_changes_nothing(self, model: Recommender, split: Split) -> None:
        rows = split.train.matrix[:3]
        np.testing.assert_array_equal(model.score(rows, users=["x", "y", "z"]), model.score(rows))
        with pytest.raises(DataError, match="2 users were named for 3"):
            model.score(rows, users=["x", "y"])

    def test_users_of_a_summary_are_nobody(self, model: Recommender, split: Split) -> None:
        """Fitted on stand-ins, a model judges by histories alone, whatever names they share with users."""
        from infrec.data import Summary

        fitted = model.with_settings().fit(Summary.of(split.train))
        for count in (2, 40):  # a few, and so many that their names are looked up
            rows, names = split.train.matrix[:count], split.train.users.take(np.arange(count))
            np.testing.assert_array_equal(fitted.score(rows, users=names), fitted.score(rows))

    def test_repeated_entries_count_together(self, model: Recommender, split: Split) -> None:
        row = split.train.matrix[[5]]
        halves = (np.r_[row.data, row.data] / 2, np.r_[row.indices, row.indices], 2 * row.indptr)
        twice = sp.csr_array(halves, shape=row.shape)
        np.testing.assert_array_equal(model.score(twice), model.score(row))

    @pytest.mark.parametrize("dtype", [np.int64, np.int8, bool, np.float64])
    def test_the_type_of_the_entries_does_not_matter(
        self, model: Recommender, split: Split, dtype: type
    ) -> None:
        rows = split.train.matrix[:5]
        np.testing.assert_array_equal(model.score(rows.astype(dtype)), model.score(rows))

    def test_the_wrong_number_of_items(self, model: Recommender) -> None:
        with pytest.raises(DataError, match="columns"):
            model.score(sp.csr_array((2, 3), dtype=np.float32))

    # ---- recommendations --------------------------------------------------------------------------------
    def test_batched_is_single(self, model: Recommender) -> None:
        users = ["u003", "u090", "u041"]
        together = model.recommend(users, k=8)
        for user in users:
            alone = list(model.recommend([user], k=8))
            same = [row for row in together if row["user"] == user]
            assert [row["item"] for row in alone] == [row["item"] for row in same]
            np.testing.assert_allclose(
                [r["score"] for r in alone], [r["score"] for r in same], rtol=1e-4, atol=1e-6
            )

    def test_the_table(self, model: Recommender) -> None:
        table = model.recommend(["u003", "u004"], k=5)
        assert table.columns == ["user", "item", "rank", "score", "source", "title"]
        assert table["user"] == ["u003"] * 5 + ["u004"] * 5
        assert table["rank"] == [1, 2, 3, 4, 5] * 2
        assert set(table["source"]) == {"model"}
        for row in table:
            assert row["title"] == f"Item {int(row['item'][1:])}"
        scores = np.reshape(table["score"], (2, 5))
        assert (np.diff(scores, axis=1) <= 0).all()

    def test_a_known_user_is_their_history(self, model: Recommender) -> None:
        row = int(model.log.users.positions(["u007"])[0])
        history = model.log.items.take(model.log.matrix[[row]].indices).to_pylist()
        known = model.recommend(["u007"], k=6)["item"]
        given = model.recommend(histories=[history], k=6)["item"]
        if model.knows_users:  # something more was learnt for u007, in the same direction
            assert len(set(known) & set(given)) >= 3
        else:
            assert known == given

    def test_everybody(self, model: Recommender) -> None:
        table = model.recommend(k=3)
        assert len(table) == 3 * model.log.n_users
        assert list(dict.fromkeys(table["user"])) == list(model.log.users)

    def test_seen_items_are_left_out_unless_wanted(self, model: Recommender) -> None:
        history = ["i00", "i01", "i02", "i03"]
        fresh = set(model.recommend(histories=[history], k=60)["item"])
        assert not fresh & set(history)
        assert len(fresh) == 56
        every = model.recommend(histories=[history], k=60, exclude_seen=False)
        assert len(every) == 60

    def test_filters(self, model: Recommender) -> None:
        only = model.recommend(["u001"], k=10, only=["i10", "i20", "i30"], exclude_seen=False)
        assert sorted(only["item"]) == ["i10", "i20", "i30"]
        full = model.recommend(["u001"], k=5)["item"]
        without = model.recommend(["u001"], k=4, exclude=full[:1])["item"]
        assert without == full[1:]
        with pytest.raises(DataError, match="none of the items in only="):
            model.recommend(["u001"], only=["nope"])
        with pytest.warns(UserWarning, match="'nope'"):
            model.recommend(["u001"], exclude=["nope"])

    def test_unknown_users(self, model: Recommender) -> None:
        with pytest.warns(UserWarning, match="'stranger'"):
            table = model.recommend(["u001", "stranger"], k=3)
        assert table["source"] == ["model"] * 3 + ["popular"] * 3
        popular = model.log.items.take(np.argsort(-model.popularity, kind="stable")[:3]).to_pylist()
        assert table["item"][3:] == popular
        with pytest.warns(UserWarning, match="skipped"):
            assert set(model.recommend(["stranger", "u001"], on_unknown="skip")["user"]) == {"u001"}
        with pytest.raises(DataError, match="unknown users: 'stranger'"):
            model.recommend(["stranger"], on_unknown="error")
        with pytest.raises(ConfigError, match="on_unknown"):
            model.recommend(["u001"], on_unknown="guess")  # type: ignore[arg-type]

    def test_empty_and_unknown_histories(self, model: Recommender) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = model.recommend(histories=[[], ["i05"]], k=2)
        assert table["source"] == ["popular", "popular", "model", "model"]
        with pytest.warns(UserWarning, match="'zzz'"):
            partly = model.recommend(histories=[["i05", "zzz"]], k=2)
        assert partly["item"] == table["item"][2:]
        with pytest.raises(DataError, match="unknown items: 'zzz'"):
            model.recommend(histories=[["zzz"]], on_unknown="error")

    def test_bad_questions(self, model: Recommender) -> None:
        for k in (0, 2.5, "3", None, True):
            with pytest.raises(ConfigError, match=r"k is .*; expected a list length"):
                model.recommend(["u001"], k=k)  # type: ignore[arg-type]
            with pytest.raises(ConfigError, match=r"k is .*; expected a list length"):
                model.similar("i05", k=k)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="one of them"):
            model.recommend(["u001"], histories=[["i01"]])
        for ids in (["i01", "i02"], [1, 2], [None]):
            with pytest.raises(ConfigError, match="list of histories"):
                model.recommend(histories=ids)  # type: ignore[arg-type]

    def test_an_id_alone(self, of_checkerboard: Recommender) -> None:
        """A number as a word: a list of one."""
        model = of_checkerboard
        assert model.recommend(3, k=2) == model.recommend([3], k=2)  # type: ignore[arg-type]
        only = model.recommend(3, only=5, exclude_seen=False)  # type: ignore[arg-type]
        assert only["item"] == [5]

    def test_lists_that_are_not_all_alike(self, model: Recommender) -> None:
        """Whole, without repeats, other than by scores alone; a model with one list for all says so."""
        users = ["u003", "u041", "u090"]
        plain = [model.recommend([user], k=8)["item"] for user in users]
        try:
            diverse = [model.recommend([user], k=8, diversity=0.8, popularity=-0.2)["item"] for user in users]
        except ConfigError as failure:
            assert "the same order for everybody" in str(failure) and plain[1][0] == plain[2][0]
        else:
            assert all(len(set(items)) == 8 for items in diverse) and diverse != plain
        assert all(len(model.recommend([user], k=8, max_per={"title": 1})) == 8 for user in users)

    def test_similar(self, model: Recommender) -> None:
        table = model.similar("i05", k=7)
        assert table.columns == ["item", "rank", "score", "title"]
        assert len(table) == 7
        assert "i05" not in table["item"]
        assert len(model.similar("i05", k=10**12)) == 59  # no room is made for the others
        with pytest.raises(DataError, match="'nope'"):
            model.similar("nope")

    # ---- weights ----------------------------------------------------------------------------------------
    def test_weights_are_honoured(self, without_validation: Recommender, small_log: Interactions) -> None:
        """An item weighted three times as much scores higher with those who have it."""
        weighted = small_log.matrix.copy()
        weighted.data = np.where(weighted.indices == 20, 3.0, 1.0).astype(np.float32)
        plain = without_validation
        heavy = self.make().with_settings(**plain.selected).fit(small_log.with_matrix(weighted))
        having = np.flatnonzero(small_log.matrix[:, [20]].toarray().ravel())
        before, after = (model.score(model.log.matrix[having]) for model in (plain, heavy))
        if self.scores_are_relative:  # only their order has a meaning
            before, after = (scores.argsort(axis=1).argsort(axis=1) for scores in (before, after))
            assert after[:, 20].mean() > before[:, 20].mean() + 1
        else:
            assert after[:, 20].mean() > 1.5 * before[:, 20].mean() > 0

    # ---- more data, and less ----------------------------------------------------------------------------
    @pytest.fixture(scope="class")
    @classmethod
    def before(cls, small_log: Interactions) -> Interactions:
        """Without eight users, three items and some interactions of everybody else."""
        matrix = small_log.matrix.toarray()[:112, 3:] * (np.random.default_rng(1).random((112, 57)) < 0.97)
        users, items = small_log.users.ids[:112], small_log.items.ids[3:]
        return Interactions.from_csr(matrix, users=users, items=items)

    def check_equal(self, model: Recommender, fresh: Recommender, rows: sp.csr_array) -> None:
        """Scores to 1e-4 of the largest one, and lists."""
        expected = fresh.score(rows)
        np.testing.assert_allclose(model.score(rows), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
        assert model.selected == fresh.selected
        assert model.recommend(k=10)["item"] == fresh.recommend(k=10)["item"]
        assert model.recommend(k=1)["user"] == fresh.recommend(k=1)["user"]

    def fresh(self, model: Recommender, log: Interactions) -> Recommender:
        """A fit from scratch with the settings of an updated model."""
        return self.make().with_settings(**model.selected).fit(log)

    def test_updated_it_is_fitted_on_everything(
        self, before: Interactions, small_log: Interactions, tmp_path: Path
    ) -> None:
        """New users, new items, more of known users: at once, and one after the other."""
        model = self.make().fit(before)
        if isinstance(model, GradientModel) and not isinstance(model, BiasOnly):
            for change in (lambda: model.update(small_log), lambda: model.forget("u001")):
                with pytest.raises(
                    ConfigError, match="trained by epochs and cannot be updated; fit it again"
                ):
                    change()
            return
        model.save(tmp_path / "model")
        assert model.update(small_log) is model
        fresh = self.fresh(model, small_log)
        self.check_equal(model, fresh, small_log.matrix)
        loaded = models.load(tmp_path / "model")
        for some in (range(118), range(40, 120), range(120)):
            loaded.update(small_log.select_users(np.array(some)))
        self.check_equal(loaded, fresh, small_log.matrix)
        loaded.save(tmp_path / "model")
        self.check_equal(models.load(tmp_path / "model"), fresh, small_log.matrix)
        without = small_log.select_users(np.setdiff1d(np.arange(120), [3, 50, 119]))
        model.forget("u119").forget(["u003", "u050"])
        self.check_equal(model, self.fresh(model, without), small_log.matrix)
        fitted = model.fitted
        with pytest.raises(DataError, match="does not know the user 'u119'; expected somebody"):
            model.forget("u119")
        with pytest.raises(DataError, match="item ids are whole numbers, such as 1, and those of the model"):
            model.update({"user": ["u001"], "item": [1]})
        assert model.fitted is fitted

    # ---- disk -------------------------------------------------------------------------------------------
    def test_saved_and_loaded_it_recommends_the_same(self, model: Recommender, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        for loaded in (models.load(tmp_path / "model"), type(model).load(tmp_path / "model")):
            assert type(loaded) is type(model)
            assert loaded.selected == model.selected
            assert loaded.candidates == model.candidates
            assert loaded.recommend(k=5) == model.recommend(k=5)
            assert loaded.similar("i05") == model.similar("i05")

    def test_another_model_is_not_loaded_by_mistake(self, model: Recommender, tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        other = next(models.class_of(name) for name in models.NAMES if name != model.name)
        with pytest.raises(ArtifactError, match=f"'{model.name}'.*expected '{other.name}'"):
            other.load(tmp_path / "model")

    def test_integer_ids_survive(
        self, of_checkerboard: Recommender, checkerboard: Interactions, tmp_path: Path
    ) -> None:
        model = of_checkerboard
        model.save(tmp_path / "model")
        loaded = models.load(tmp_path / "model")
        assert loaded.log.items == checkerboard.items
        by_text, by_number = loaded.recommend(["3"], k=2), model.recommend([3], k=2)
        assert by_text["item"] == by_number["item"] and by_text["score"] == by_number["score"]
        assert {type(item) for item in by_text["item"]} == {int}
