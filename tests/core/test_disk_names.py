from pvg_hf.core.disk_names import round_folders, round_name


def test_rounds_are_named():
    assert [round_name(index) for index in (-1, 0, 12)] == ["base", "round-000", "round-012"]


def test_only_folders_of_rounds_are_recognised(tmp_path):
    others = ("base", "round-000.bak", "round-000-old", "round-1", "round-0002", "round-x", ".round-003.partial")
    for name in ("round-001", "round-1000", "round-000", *others):
        (tmp_path / name).mkdir()
    (tmp_path / "round-004").touch()
    found = round_folders(tmp_path)
    assert list(found.items()) == [(k, tmp_path / round_name(k)) for k in (0, 1, 1000)]
    assert round_folders(tmp_path / "none") == {}
