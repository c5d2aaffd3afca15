"""The attacks find what is planted and nothing else, so that a zero elsewhere means something."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from infrec.data import Interactions
from infrec.data.summary import Summary
from infrec.distillation.settings import DistillSettings
from infrec.errors import ConfigError, DataError
from infrec.privacy import Audit, Released, audit, linkage, matching, membership
from infrec.privacy.linkage import Neighbours
from infrec.privacy.membership import strongest
from infrec.privacy.released import outstanding
from infrec.report import audit as page
from infrec.report import html
from infrec.report.audit import paragraph

PEOPLE = 900
ITEMS = 90


@pytest.fixture(scope="module")
def people() -> tuple[Interactions, Interactions]:
    """300 members and 600 others of the same kind: four tastes over 90 items."""
    rng = np.random.default_rng(0)
    taste = np.full((PEOPLE, ITEMS), 0.07)
    for person in range(PEOPLE):
        group = person % 4
        taste[person, group * 22 : (group + 1) * 22] = 0.5
    likes = rng.random(taste.shape) < taste
    likes[np.arange(PEOPLE), rng.integers(0, ITEMS, PEOPLE)] = True
    ids = [f"u{n}" for n in range(PEOPLE)]
    return (
        Interactions.from_csr(likes[:300], users=ids[:300]),
        Interactions.from_csr(likes[300:], users=ids[300:]),
    )


def released(rows: Interactions) -> Released:
    return Released.summary(Summary.of(rows, about={"reg_grid": [1.0]}))


@pytest.fixture(scope="module")
def on_the_log(people: tuple[Interactions, Interactions]) -> Audit:
    members, control = people
    return audit(released(members), members, control, control_from="others")


@pytest.fixture(scope="module")
def on_noise(people: tuple[Interactions, Interactions]) -> Audit:
    members, control = people
    noise = np.random.default_rng(9).random((100, ITEMS)) < 0.2
    return audit(released(Interactions.from_csr(noise)), members, control, control_from="others")


def test_the_log_itself_gives_nearly_everybody_away(on_the_log: Audit) -> None:
    most = on_the_log.linkage[-1]
    assert most.known == 16 and most.attack.value > 0.95
    assert most.control is not None and most.control.value < 0.02
    assert most.rows > 0.8
    distance = on_the_log.membership[0]
    assert distance.score == "distance" and distance.tpr["1 %"].value > 0.99
    assert on_the_log.neighbours is not None and on_the_log.neighbours.copies == 300
    assert {"linkage", "membership (distance)", "membership (model)"} <= set(on_the_log.leaks)


def test_a_fractional_veil_hides_nobody(people: tuple[Interactions, Interactions]) -> None:
    """A little of every item, as published summaries have it, with the members' own items barely above it."""
    members, control = people
    rng = np.random.default_rng(4)
    common = rng.uniform(0.02, 0.2, ITEMS)
    veiled = 0.5 + common + 0.05 * members.matrix.toarray() + rng.normal(0, 0.004, members.matrix.shape)
    veil = Interactions.from_csr(veiled.astype(np.float32))
    found = audit(released(veil), members, control, control_from="others")
    assert found.linkage[-1].attack.value > 0.9
    assert found.linkage[-1].control is not None and found.linkage[-1].control.value < 0.02
    assert found.membership[0].score == "distance" and found.membership[0].tpr["1 %"].value > 0.9
    assert {"linkage", "membership (distance)"} <= set(found.leaks)


def test_what_stands_out_of_fractional_rows() -> None:
    rows = sp.csr_array(
        np.array([[0.9, 0.5, 0.0, 0.1], [0.9, 0.1, 0.2, 0.1], [0.9, 0.0, 0.1, 0.1]], np.float32)
    )
    # The mean is 0.9, 0.2, 0.1, 0.1: everybody has the first item, and the last tells nothing either.
    expected = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(outstanding(rows, 1).toarray(), expected)
    whole = sp.csr_array(np.array([[1, 0, 1], [0, 1, 1]], np.float32))
    assert outstanding(whole, 1) is whole


def test_more_known_items_link_more(on_the_log: Audit) -> None:
    rates = [each.attack.value for each in on_the_log.linkage]
    assert rates == sorted(rates)


def test_pure_noise_gives_nobody_away_beyond_chance(on_noise: Audit) -> None:
    assert on_noise.leaks == [] and on_noise.traces == []
    assert paragraph(on_noise).startswith("No attack tried here did clearly better")
    for each in on_noise.linkage:
        assert each.control is not None
        assert each.attack.low <= each.control.high
    for found in on_noise.membership:
        assert found.auc.low < 0.52 and found.bound < 0.1
        assert found.tpr["1 %"].low <= 0.01
    assert on_noise.neighbours is not None and on_noise.neighbours.copies == 0


def test_planted_members_are_found_and_absent_ones_are_not(people: tuple[Interactions, Interactions]) -> None:
    """A release of 100 of the members: exactly these are linked, and they alone stand out."""
    members, _ = people
    who = matching.Groups.of(members, None, members.items)
    rows = members.matrix[:100]
    everybody, support = who.everybody, who.support
    own = matching.nearest(rows, everybody, support).person
    np.testing.assert_array_equal(own, np.arange(100))
    targets, numbers = linkage.auxiliary(everybody, 16, 0, support, np.random.default_rng(1))
    found = linkage.match(targets, rows, support=support, whose=(own, numbers))
    planted = numbers < 100
    right = linkage._credit(found)
    assert right[planted].mean() > 0.95 and right[~planted].sum() == 0


def test_equal_rows_share_the_credit() -> None:
    """Item 0 stands in rows 0 and 1, so each is named with chance ½, whichever comes first."""
    rows = sp.csr_array(np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], np.float32))
    targets = sp.csr_array(np.array([[1, 0, 0]] * 4 + [[0, 0, 0]], np.float32))
    support = np.array([2, 2, 2])

    def credit(owners: list[int]) -> list[float]:
        whose = (np.array(owners), np.arange(5))
        return linkage._credit(linkage.match(targets, rows, support=support, whose=whose)).tolist()

    assert credit([0, 1, 2]) == [0.5, 0.5, 0.0, 0.0, 0.0]
    assert credit([3, 3, 0]) == [0.0, 0.0, 0.0, 1.0, 0.0], "both tied rows are theirs"
    assert credit([4, 4, 4]) == [0.0] * 5, "nothing is known of person 4"


def test_known_items_are_right_and_wrong_in_the_promised_numbers(
    people: tuple[Interactions, Interactions],
) -> None:
    matrix = people[0].matrix
    support = np.bincount(matrix.indices, minlength=ITEMS)
    shown, who = linkage.auxiliary(matrix, 8, 2, support, np.random.default_rng(4))
    own = matrix[who].toarray() > 0
    known = shown.toarray() > 0
    np.testing.assert_array_equal((known & own).sum(axis=1), 6)
    assert ((known & ~own).sum(axis=1) <= 2).all() and (known & ~own).sum() > 1.9 * len(who)


def test_what_tells_members_apart_without_singling_anybody_out_is_a_trace(on_noise: Audit) -> None:
    """Everybody of the log scores a little higher: 1 % at 1 %, and yet 64 % of pairs are told apart."""
    rng = np.random.default_rng(2)
    members, control = rng.normal(0.5, 1, 5000), rng.normal(0, 1, 600)
    members, control = np.minimum(members, 2.5), np.minimum(control, 2.6)
    control[:6] = 2.6  # the few who stand out most were never in the log
    shifted = membership.Membership.of("likelihood", members, control, seed=0)
    found = replace(on_noise, membership=[*on_noise.membership, shifted])
    assert shifted.tpr["1 %"].low <= 0.02 and 0.6 < shifted.auc.value < 0.68
    assert found.leaks == [] and found.traces == ["membership (likelihood)"]
    text = paragraph(found)
    assert "leaves a trace: membership (likelihood)" in text
    assert f"tells them apart {100 * shifted.auc.value:.0f} % of the time" in text
    shown = html.render(page.document(found), {})
    assert "aside warn" in shown and "lead open" in shown
    assert re.search(r"Recognised, 1 % accused.*?<td>trace</td>", shown.replace("&nbsp;", " "), re.DOTALL)

    explained = replace(found, popularity=replace(shifted, score="popularity"))
    assert explained.traces == [], "popularity alone tells them apart as well"
    sharp = membership.Membership.of("likelihood", members + 2, control, seed=0)
    leaking = replace(on_noise, membership=[sharp])
    assert leaking.leaks == ["membership (likelihood)"] and leaking.traces == []


def test_a_small_control_still_tells_a_leak_and_says_what_it_cannot_tell(on_noise: Audit) -> None:
    """100 people tell 10 % of them apart but not 1 %; 20 people neither: then nothing is said of twice."""
    rng = np.random.default_rng(4)

    def attacked(control: int, shift: float) -> Audit:
        found = membership.Membership.of(
            "distance", rng.normal(shift, 1, 900), rng.normal(size=control), seed=0
        )
        return replace(on_noise, membership=[found], control=control, linkage=(), reconstruction=())

    plain = attacked(100, 2.5)
    assert set(plain.membership[0].tpr) == {"10 %"} and plain.membership[0].tpr["10 %"].low > 0.5
    assert plain.leaks == ["membership (distance)"] and plain.traces == []
    assert paragraph(plain).startswith("This summary gives people away: membership (distance)")

    small = attacked(20, 2.5)
    assert small.leaks == [] and small.traces == ["membership (distance)"]
    words = paragraph(small)
    assert (
        "twice" not in words and "the control of 20 is too small to say whether anybody is singled" in words
    )
    assert words.count("tells them apart") == 1


def test_a_control_larger_than_the_log_is_no_nearer() -> None:
    """Noise, 100 members, 400 others: half of 10 · 100 rows are nearer to a member, within 3 deviations."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(10):
        inside, outside, rows = (
            sp.csr_array((rng.random((count, 60)) < 0.2).astype(np.float32)) for count in (100, 400, 100)
        )
        found.append(Neighbours.of(rows, matching.Groups(inside, outside)).nearer)
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)


def test_exact_copies_are_a_warning_whatever_the_control_can_tell(on_noise: Audit) -> None:
    assert on_noise.neighbours is not None and page.kind(on_noise) == "note"
    copied = replace(on_noise, neighbours=replace(on_noise.neighbours, copies=18))
    assert copied.leaks == []
    second = paragraph(copied).split(". ")[1]
    assert second == "Released rows that are a real person's history, item by item: 18"
    assert page.kind(copied) == "warning"


def test_a_claim_that_was_not_tested_is_not_called_unbroken(
    people: tuple[Interactions, Interactions],
) -> None:
    members, _ = people
    claim = {"epsilon": 3.0, "delta": 1e-6}
    found = replace(audit(released(members), members), guarantee=claim)
    assert found.membership == ()
    words = paragraph(found)
    assert "claims ε = 3 with δ = 1e-06; without a control group that could not be put to the test" in words
    assert "prove" not in words


def test_the_worst_are_those_of_the_strongest_score(people: tuple[Interactions, Interactions]) -> None:
    """Of 300 members ten are released as they are: they stand out by distance, and the model hardly knows."""
    members, control = people
    found = audit(released(members.select_users(np.arange(10))), members, control)
    assert strongest(found.membership).score == "distance"
    assert {each["score"] for each in found.worst} == {"distance"}
    assert {each["user"] for each in found.worst} == {f"u{n}" for n in range(10)}
    assert all(each["value"] == pytest.approx(1, abs=1e-5) for each in found.worst)


def test_without_a_control_membership_is_not_measurable(people: tuple[Interactions, Interactions]) -> None:
    members, _ = people
    found = audit(released(members), members)
    assert found.membership == () and found.popularity is None
    assert found.not_measured["membership"].startswith("not measurable")
    assert all(each.control is None for each in found.linkage)
    assert "could not be measured" in paragraph(found)
    assert "not measurable" in html.render(page.document(found), {}).lower()
    with pytest.raises(ConfigError, match="no control group"):
        audit(released(members), members, shadow_runs=4)


def test_the_likelihood_ratio_beats_the_score_it_is_made_of() -> None:
    """Scores = an own level per person + 1 when in + noise: shadows take the levels away."""
    rng = np.random.default_rng(8)
    people, runs = 2000, 16
    level = rng.normal(0, 3, people)
    truth = np.arange(people) < 1000
    member = membership.halves(people, runs, seed=1)
    assert (member.sum(axis=0) == runs // 2).all()

    def scores(inside: np.ndarray) -> dict[str, np.ndarray]:
        return {"s": level + inside + rng.normal(0, 0.5, people)}

    observed = scores(truth)
    ratio = membership.ratio(observed, [scores(member[at]) for at in range(runs)], member)
    plain = (observed["s"][truth][:, None] > observed["s"][~truth][None, :]).mean()
    better = (ratio[truth][:, None] > ratio[~truth][None, :]).mean()
    assert plain < 0.62 < 0.85 < better


def test_shadows_are_made_as_the_release_was(people: tuple[Interactions, Interactions]) -> None:
    """A sample of users, attacked with four shadow samples: who was drawn is recognised."""
    members, control = people
    sample = Summary.of(
        members.select_users(np.arange(0, 300, 2)),
        about={"strategy": "user-rns", "reg_grid": [1.0]},
        kind="sample",
    )
    found = audit(Released.summary(sample), members, control, shadow_runs=4)
    assert [each.score for each in found.membership] == ["distance", "model", "likelihood"]
    assert found.membership[-1].tpr["10 %"].value > 0.4
    begun: list[str] = []
    with pytest.raises(ConfigError, match="even number"):
        audit(
            Released.summary(sample),
            members,
            control,
            shadow_runs=3,
            progress=lambda stage, *_, **__: begun.append(stage),
        )
    assert not begun, "refused before the attacks"


def test_a_shadow_has_the_share_of_interactions_of_a_sample(
    people: tuple[Interactions, Interactions],
) -> None:
    from infrec.samplers import sample

    members, _ = people
    tenth = sample(members, strategy="interaction-rns", percent=10, seed=1)
    for percent in (10, None):
        about = {"strategy": "interaction-rns", "percent": percent, "reg_grid": [1.0]}
        remake = Released.summary(Summary.of(tenth, about=about, kind="sample")).remake
        assert remake is not None
        rows = remake(members, 5).rows
        assert rows is not None and rows.nnz == tenth.n_interactions


def test_a_continued_summary_has_no_shadows(people: tuple[Interactions, Interactions]) -> None:
    members, control = people
    about = {"reg_grid": [1.0], "periods": 2, "settings": DistillSettings().to_dict()}
    continued = Released.summary(Summary.of(members, about=about))
    assert continued.remake is None
    with pytest.raises(ConfigError, match="continued over 2 periods"):
        audit(continued, members, control, shadow_runs=4)


def test_a_model_without_histories_is_asked_for_scores(
    people: tuple[Interactions, Interactions],
) -> None:
    from infrec.models import EASE

    members, control = people
    found = audit(Released.of_model(EASE(reg=1.0).fit(members)), members, control)
    assert found.linkage == () and "no histories" in found.not_measured["linkage"]
    assert [each.score for each in found.membership] == ["model"]


def test_an_exact_model_stores_its_users(people: tuple[Interactions, Interactions]) -> None:
    from infrec.models import InfiniteAE

    members, control = people
    found = audit(Released.of_model(InfiniteAE(reg=1.0).fit(members)), members, control)
    assert found.linkage[-1].attack.value > 0.95


def test_records_survive_json_and_ids_can_be_left_out(on_the_log: Audit) -> None:
    import json

    again = Audit.from_dict(json.loads(json.dumps(on_the_log.as_dict())))
    assert json.dumps(again.as_dict()) == json.dumps(on_the_log.as_dict())
    assert on_the_log.worst and "worst" not in on_the_log.as_dict(ids=False)
    shown = html.render(page.document(again), {})
    assert str(on_the_log.worst[0]["user"]) in shown and "Smoke alarm" in shown


def test_the_wrong_log_is_refused(people: tuple[Interactions, Interactions]) -> None:
    other = Interactions.from_csr(np.eye(5), items=[f"other {n}" for n in range(5)])
    with pytest.raises(DataError, match="expected the log it was made from"):
        audit(released(people[0]), other)
