"""What the tests share: the cards, on which every program runs once."""

from __future__ import annotations

import pytest
from described_cards import Cards


@pytest.fixture(scope="session")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Cards:
    """Give the cards."""
    return Cards(tmp_path_factory.mktemp("cards"))
