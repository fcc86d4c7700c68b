"""What languages may be called."""

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.languages import check_code, check_name


@pytest.mark.parametrize("code", ["en", "de", "tl", "ceb", "hsb"])
def test_codes_of_two_letters_and_of_three_where_there_are_no_two(code):
    assert check_code(code, "--x") == code


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("deu", "--x 'deu': give the code of two letters, de"),
        ("ger", "--x 'ger': give the code of two letters, de"),
        ("jpn", "--x 'jpn': give the code of two letters, ja"),
        ("xx", "not a code of ISO 639"),
        ("german", "not a code of ISO 639"),
        ("../../etc", "not a code of ISO 639"),
        ("de\n", "not a code of ISO 639"),
        ("abc\n", "not a code of ISO 639"),
        ("", "not a code of ISO 639"),
    ],
)
def test_what_is_no_code_is_refused(code, message):
    with pytest.raises(UserError, match=message):
        check_code(code, "--x")


@pytest.mark.parametrize("name", ["", "../en", "en-us", "e.n", "é", "en\n"])
def test_names_that_files_cannot_hold_are_refused(name):
    with pytest.raises(UserError, match="give letters, digits and _ alone"):
        check_name(name, "--x")
    assert check_name("pt_BR", "--x") == "pt_BR"
