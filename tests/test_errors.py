"""What errors show of the names and texts of others."""

from __future__ import annotations

import pytest

from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError


@pytest.mark.parametrize("kind", [RegardError, ShapeError, ConfigError, DataError, UnsupportedError])
def test_a_message_shows_no_control_characters_but_line_ends_and_tabs(kind: type[RegardError]) -> None:
    message = "a\x1b[2J\r\x00\x7f\x85\ud800\udcff\n\tß‍👧"
    assert str(kind(message)) == "a\\x1b[2J\\r\\x00\\x7f\\x85\\ud800\\udcff\n\tß‍👧"
    assert str(kind("plain words\nof two lines")) == "plain words\nof two lines"
