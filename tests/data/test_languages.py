"""Which codes and names of languages are accepted."""

import pytest

from resmlp_mt.common.errors import UserError
from resmlp_mt.data.languages import check_code, check_name


def test_codes_of_two_letters_and_of_three_where_there_are_no_two():
    assert [check_code(code, "--x") for code in ("en", "tl", "ceb")] == ["en", "tl", "ceb"]
    assert check_name("pt_BR", "--x") == "pt_BR"


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        (check_code, "deu", "--x 'deu': give the code of two letters, de"),
        *((check_code, code, "not a code of ISO 639") for code in ("german", "../../etc", "de\n", "")),
        *((check_name, name, "give letters, digits and _ alone") for name in ("", "../en", "en-us", "é", "en\n")),
    ],
)
def test_what_is_no_code_or_no_name_is_refused(check, name, message):
    with pytest.raises(UserError, match=message):
        check(name, "--x")
