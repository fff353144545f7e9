"""Shared fixtures: the described cards, where every program runs once."""

from __future__ import annotations

import pytest
from described_cards import Cards


@pytest.fixture(scope="session")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Cards:
    """Returns the cards."""
    return Cards(tmp_path_factory.mktemp("cards"))
