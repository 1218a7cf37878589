"""Tables and text that can be read on a terminal as they are."""

from pagelab.linux import markdown


def test_columns_line_up() -> None:
    text = markdown.table(["folio", "off", "on"], [["4 KB", "1", "22222"], ["2048 KB", "33", ""]])
    assert text.splitlines() == [
        "| folio   | off |    on |",
        "| ------- | --: | ----: |",
        "| 4 KB    |   1 | 22222 |",
        "| 2048 KB |  33 |       |",
    ]


def test_text_is_broken_into_lines() -> None:
    lines = markdown.paragraph("word-word " * 30).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= markdown.WIDTH
    assert " ".join(lines) == ("word-word " * 30).strip()
