"""What errors show of the names and texts of others."""

from __future__ import annotations

import pytest

from regard.audio import read_wave
from regard.data.text import open_pairs
from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError
from regard.image import read_image


@pytest.mark.parametrize("kind", [RegardError, ShapeError, ConfigError, DataError, UnsupportedError])
def test_a_message_shows_no_control_characters_but_line_ends_and_tabs(kind: type[RegardError]) -> None:
    message = "a\x1b[2J\r\x00\x7f\x85\ud800\udcff\n\tß‍👧"
    assert str(kind(message)) == "a\\x1b[2J\\r\\x00\\x7f\\x85\\ud800\\udcff\n\tß‍👧"
    assert str(kind("plain words\nof two lines")) == "plain words\nof two lines"


@pytest.mark.parametrize("read", [read_image, open_pairs, read_wave])
def test_a_message_does_not_repeat_thousands_of_characters_of_one_word(read, tmp_path) -> None:
    with pytest.raises(DataError, match="name too long") as caught:
        read(tmp_path / f"{'x' * 9000}.tsv")
    assert len(str(caught.value)) < 300
    assert str(RegardError(f"/{'a/b' * 100}")) == f"/{'a/b' * 100}"
