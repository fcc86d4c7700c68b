from resmlp_mt.common.progress import markdown_table, text_table


def test_names_begin_and_numbers_end_below_each_other():
    rows = [["system", "BLEU"], ["ResMLP-6", "26.4"], ["GNMT", ""]]
    assert text_table(rows) == "system    BLEU\nResMLP-6  26.4\nGNMT"
    assert text_table([("a", "bb", "c"), ("aa", "b", "10")], left=2) == "a   bb   c\naa  b   10"
    assert text_table([("a", "b"), ("aa", "10")], left=0) == " a   b\naa  10"
    assert text_table([("a", "b"), ("  1e5", "")]) == "a      b\n  1e5"
    assert markdown_table(rows) == "| system | BLEU |\n| --- | --- |\n| ResMLP-6 | 26.4 |\n| GNMT |  |"
