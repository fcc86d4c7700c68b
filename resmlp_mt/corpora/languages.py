"""Names of languages: as fairseq's file names can hold them, and as Moses' rules and sacrebleu know them."""

import re

from resmlp_mt.errors import UserError

_TWO_LETTERS = """
    aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en
    eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja
    jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb
    nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq
    sr ss st su sv sw ta te tg th ti tk tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
ISO_639_1 = frozenset(_TWO_LETTERS.split())


def check_code(language: str, option: str) -> str:
    """Return a language's code, of ISO 639: two letters, or three.

    Raises:
        UserError: it is none; with the option that gave it
    """
    if language in ISO_639_1 or re.fullmatch("[a-z]{3}", language):
        return language
    raise UserError(f"{option} {language!r}: not a code of ISO 639: give two letters, such as en or de")


def check_name(language: str, option: str) -> str:
    """Return a language's name, as the names of files hold it (``train.en-de.en.bin``): letters, digits and ``_``.

    Raises:
        UserError: it has others; with the option that gave it
    """
    if re.fullmatch("[A-Za-z0-9_]{1,64}", language):
        return language
    raise UserError(f"{option} {language!r}: give letters, digits and _ alone, such as en, de or pt_BR")
