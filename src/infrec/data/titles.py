"""Invented films: titles that sound like their genre. None is meant to be a film that exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from infrec.randomness import generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GENRES = (
    *("Drama", "Comedy", "Thriller", "Sci-Fi", "Romance", "Crime"),
    *("Horror", "Adventure", "Animation", "Documentary", "Western", "Musical"),
)
_NOUNS = (
    "Harvest Inheritance Lighthouse Winter Daughter Silence Letter Estuary Threshold Portrait Ferryman",
    "Landlord Wedding Parrot Holiday Accountant Roommate Casserole Cousin Lottery Moustache Babysitter",
    "Cipher Witness Alibi Corridor Informant Deadline Blackout Hostage Decoy Passenger Verdict Countdown",
    "Orbit Colony Android Signal Nebula Airlock Starfall Paradox Engine Horizon Satellite Exile",
    "Kiss Balcony Valentine Summer Serenade Bouquet Promise Postcard Heartbeat Waltz Rendezvous Honeymoon",
    "Heist Syndicate Ledger Safecracker Precinct Getaway Racket Forger Jury Underworld Detective Ransom",
    "Cellar Scarecrow Whisper Hollow Séance Marrow Nightfall Doll Crypt Fog Lullaby Attic",
    "Expedition Compass Jungle Summit Treasure Map Voyage Canyon Temple Rapids Caravan Relic",
    "Hedgehog Dragon Teapot Kite Snowman Robot Fox Turnip Cloud Penguin Acorn Broomstick",
    "Glacier Archive Factory Migration Reef Election Beekeepers Railway Harbour Orchestra Desert Vaccine",
    "Sheriff Saddle Outlaw Prairie Stagecoach Ranch Dust Gunsmith Gulch Mustang Homestead Bounty",
    "Chorus Melody Piano Tap-Dancer Encore Ballroom Overture Nightingale Cabaret Songbird Rhapsody Spotlight",
)
_ADJECTIVES = (
    *("Quiet", "Crimson", "Last", "Borrowed", "Hidden", "Golden", "Broken", "Distant"),
    *("Seventh", "Paper", "Midnight", "Forgotten", "Electric", "Northern", "Hollow", "Velvet"),
    *("Restless", "Silver", "Stolen", "Patient", "Burning", "Second", "Glass", "Lonely"),
    *("Wandering", "Iron", "Gentle", "Secret", "Frozen", "Scarlet", "Wild", "Empty"),
    *("Emerald", "Sleeping", "Crooked", "Endless", "Salted", "Painted", "Reluctant", "Invisible"),
)
_PLACES = (
    *(
        "Halden",
        "Marrowgate",
        "Port Ellery",
        "Kestrel Bay",
        "Old Tannery Row",
        "Vesper Hill",
        "Saint Orla",
        "Low Meadow",
    ),
    *(
        "Carrow Street",
        "Brindle Lake",
        "Asher Point",
        "Winterbourne Lane",
        "Calder Falls",
        "the Ninth Floor",
        "the Salt Road",
        "Thorn Island",
    ),
)
_FORMS = ("The {a} {n}", "{a} {n}", "The {n} of {p}", "{n} at {p}", "A {n} for {b}", "{b} and the {n}")
_NAMES = (
    *("Ada", "Bruno", "Clémence", "Dov", "Esme", "Farouk", "Greta", "Hugo"),
    *("Ines", "Jonas", "Kaia", "Leopold", "Mira", "Nils", "Odette", "Pavel"),
)


def film_titles(genres: NDArray[np.integer] | Sequence[int], seed: int) -> list[str]:
    """One distinct title per film, given the number of its main genre; ends with a year."""
    rng = generator(seed, "generate", "titles")
    nouns = [words.split() for words in _NOUNS]
    draws = rng.integers(0, 2**31, (len(genres), 6)).tolist()
    seen: dict[str, int] = {}
    titles = []
    for genre, (form, a, n, p, b, year) in zip(genres, draws, strict=True):
        words = nouns[int(genre) % len(nouns)]
        title = _FORMS[form % len(_FORMS)].format(
            a=_ADJECTIVES[a % len(_ADJECTIVES)],
            n=words[n % len(words)],
            p=_PLACES[p % len(_PLACES)],
            b=_NAMES[b % len(_NAMES)],
        )
        if title.startswith("A ") and title[2] in "AEIOU":
            title = "An" + title[1:]
        seen[title] = seen.get(title, 0) + 1
        part = f" {seen[title]}" if seen[title] > 1 else ""
        titles.append(f"{title}{part} ({1950 + int(74 * (year / 2**31) ** 0.6)})")
    return titles
