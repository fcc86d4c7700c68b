from resmlp_mt.common.colors import OTHERS, SYSTEMS, colors_of


def test_a_system_has_one_color_whatever_it_is_beside():
    one = colors_of(["lstm", "mine", "transformer"])
    other = colors_of(["Transformer", "resmlp_transformer", "transformer, 2 processes"])
    assert one["transformer"] == other["Transformer"] == other["transformer, 2 processes"] == SYSTEMS["transformer"]
    assert one["mine"] == OTHERS[0]
    assert len(set(one.values())) == 3


def test_the_seeds_of_a_row_have_one_color():
    found = colors_of(["mine, seed 1", "mine, seed 2", "other, seed 1", "paper, seed 2"])
    assert list(found.values()) == [OTHERS[0], OTHERS[0], OTHERS[1], SYSTEMS["paper"]]


def test_one_process_has_a_lighter_color_of_its_system():
    found = colors_of(["resmlp_transformer, 1 process", "resmlp_transformer, 2 processes"])
    assert found == {"resmlp_transformer, 1 process": "#7FB8D8", "resmlp_transformer, 2 processes": "#0072B2"}
