"""Options as fields of dataclasses, from which command lines and checks are made."""

from dataclasses import field, fields
from typing import Any, get_args, get_origin

from resmlp_mt.common.errors import UserError


def option(default: Any, help: str, **more: Any) -> Any:
    """Return a field; ``more``: a number's ``least`` and ``most``, ``choices``, another ``name`` for the option."""
    return field(default=default, metadata={"help": help, **more})


class Checked:
    """The base of a dataclass of options: creating one checks that all values are possible."""

    def __post_init__(self) -> None:
        options: Any = self
        for each in fields(options):
            kinds, value, about = types_of(each.type), getattr(self, each.name), each.metadata
            right = type(value) in kinds or (float in kinds and type(value) is int)
            if right and value is not None:
                least, most = about.get("least", value), about.get("most", value)
                right = value in about.get("choices", [value]) and least <= value <= most
            if not right:
                raise UserError(f"{about.get('name', each.name)} {value!r:.60}: give {expected(kinds, about)}")


def types_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an option's value may have."""
    return (tuple,) if get_origin(annotation) is tuple else get_args(annotation) or (annotation,)


def expected(kinds: tuple[Any, ...], about: Any) -> str:
    """Describe the possible values of an option."""
    if "choices" in about:
        return f"one of {', '.join(about['choices'])}"
    if bool in kinds:
        return "True or False"
    if str in kinds:
        return "a str"
    return f"a {'whole ' if int in kinds else ''}number from {about['least']} to {about['most']:,}"
