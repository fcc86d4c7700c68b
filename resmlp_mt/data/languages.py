"""Names of languages: as fairseq's file names can hold them, and as Moses' rules and sacrebleu know them."""

import re

from resmlp_mt.common.errors import UserError

_BY_THREE_LETTERS = """
    aar:aa abk:ab afr:af aka:ak alb:sq amh:am ara:ar arg:an arm:hy asm:as ava:av ave:ae aym:ay aze:az bak:ba
    bam:bm baq:eu bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg bur:my cat:ca ces:cs cha:ch che:ce chi:zh
    chu:cu chv:cv cor:kw cos:co cre:cr cym:cy cze:cs dan:da deu:de div:dv dut:nl dzo:dz ell:el eng:en epo:eo
    est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fre:fr fry:fy ful:ff geo:ka ger:de gla:gd gle:ga
    glg:gl glv:gv gre:el grn:gn guj:gu hat:ht hau:ha heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig
    ice:is ido:io iii:ii iku:iu ile:ie ina:ia ind:id ipk:ik isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks
    kat:ka kau:kr kaz:kk khm:km kik:ki kin:rw kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv
    lim:li lin:ln lit:lt ltz:lb lub:lu lug:lg mac:mk mah:mh mal:ml mao:mi mar:mr may:ms mkd:mk mlg:mg mlt:mt
    mon:mn mri:mi msa:ms mya:my nau:na nav:nv nbl:nr nde:nd ndo:ng nep:ne nld:nl nno:nn nob:nb nor:no nya:ny
    oci:oc oji:oj ori:or orm:om oss:os pan:pa per:fa pli:pi pol:pl por:pt pus:ps que:qu roh:rm ron:ro rum:ro
    run:rn rus:ru sag:sg san:sa sin:si slk:sk slo:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es
    sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw swe:sv tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tib:bo
    tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve vie:vi vol:vo wel:cy
    wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh zul:zu
"""
TWO_LETTERS = dict(pair.split(":") for pair in _BY_THREE_LETTERS.split())
"""The code of two letters (ISO 639-1) for each of three (639-2, 639-3) whose language has both."""


def check_code(language: str, option: str) -> str:
    """Return a language's code, of ISO 639: two letters, or three where it has no two.

    Moses' rules and sacrebleu know languages by two letters, and fall back in silence.
    """
    if language in TWO_LETTERS:
        raise UserError(f"{option} {language!r}: give the code of two letters, {TWO_LETTERS[language]}")
    if language in TWO_LETTERS.values() or re.fullmatch("[a-z]{3}", language):
        return language
    raise UserError(f"{option} {language!r}: not a code of ISO 639: give two letters, such as en or de")


def check_name(language: str, option: str) -> str:
    """Return a language's name, as the names of files hold it (``train.en-de.en.bin``): letters, digits and ``_``."""
    if re.fullmatch("[A-Za-z0-9_]{1,64}", language):
        return language
    raise UserError(f"{option} {language!r}: give letters, digits and _ alone, such as en, de or pt_BR")
