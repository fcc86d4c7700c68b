from mutations import MUTATIONS, ROOT


def test_each_breaks_a_text_that_stands_in_its_file_once():
    for each in MUTATIONS:
        assert (ROOT / "resmlp_mt" / each.file).read_text(encoding="utf-8").count(each.old) == 1, each.name
