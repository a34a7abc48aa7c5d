"""A picture is stale once words, numbers or styles that it shows have changed."""

import pytest

from tools.write_pictures import PICTURES, REPOSITORY, digest_of_file, list_stale

CODE = 'def title(run):\n    """Title of the page."""\n    return f"{run}: solutions"\n'


@pytest.mark.parametrize(
    ("name", "before", "after", "is_changed"),
    [
        ("a.py", CODE, CODE.replace("solutions", "texts"), True),
        ("a.py", CODE, CODE.replace("Title", "Heading").replace("run", "game"), False),
        ("a.py", "WIDTH = 3\n", "WIDTH = 4\n", True),
        ("a.yaml", "seed: 1 # why\n", "seed: 1\n", False),
        ("a.yaml", "seed: 1\n", "seed: 2\n", True),
        ("a.css", "p { margin: 0 }\n", "p { margin: 1px }\n", True),
    ],
    ids=["word", "docstring and name", "number", "comment", "setting", "style"],
)
def test_a_digest_is_of_what_a_reader_sees(tmp_path, name, before, after, is_changed):
    digests = set()
    for text in (before, after):
        (tmp_path / name).write_text(text)
        digests.add(digest_of_file(tmp_path / name))
    assert (len(digests) == 2) == is_changed


def test_every_pattern_names_files():
    for picture in PICTURES.values():
        for pattern in picture.sources:
            assert list(REPOSITORY.glob(pattern)), pattern


def test_a_picture_whose_source_has_changed_is_named_with_the_source():
    recorded = {name: picture.digests() for name, picture in PICTURES.items()}
    recorded["report.png"]["recipes/quickstart.yaml"] = "another"
    (message,) = (line for line in list_stale(recorded) if "stale" in line)
    assert message.startswith("report.png is stale: recipes/quickstart.yaml changed")
